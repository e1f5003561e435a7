import { expect, it, vi } from "vitest";
import { type Command, filterCommands, parseMissionId } from "./commands";

const commands = ["Missões", "Criar missões", "Configurações"].map(
  (name): Command => ({ id: name, name, kind: "page", run: vi.fn() }),
);
const found = (typed: string) => filterCommands(commands, typed).map(({ name }) => name);

it("finds without accents, by prefixes of words, in any order", () => {
  expect(found("missoes")).toEqual(["Missões", "Criar missões"]);
  expect(found("mi cri")).toEqual(["Criar missões"]);
  expect(found("CONF")).toEqual(["Configurações"]);
  expect(found("")).toHaveLength(3);
  expect(found("xyz")).toEqual([]);
});

it("parses a number as a mission id", () => {
  expect([
    parseMissionId("42"),
    parseMissionId(" #7 "),
    parseMissionId("0"),
    parseMissionId("4x"),
  ]).toEqual([42, 7, null, null]);
});
