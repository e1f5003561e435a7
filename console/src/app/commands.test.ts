import { expect, it, vi } from "vitest";
import { type Command, matching, missionIn } from "./commands";

const commands = ["Missões", "Criar missões", "Configurações"].map(
  (name): Command => ({ id: name, name, kind: "page", run: vi.fn() }),
);
const found = (typed: string) => matching(commands, typed).map(({ name }) => name);

it("finds without accents, by the beginnings of words, in any order", () => {
  expect(found("missoes")).toEqual(["Missões", "Criar missões"]);
  expect(found("mi cri")).toEqual(["Criar missões"]);
  expect(found("CONF")).toEqual(["Configurações"]);
  expect(found("")).toHaveLength(3);
  expect(found("xyz")).toEqual([]);
});

it("a number is a mission", () => {
  expect([missionIn("42"), missionIn(" #7 "), missionIn("0"), missionIn("4x")]).toEqual([
    42,
    7,
    null,
    null,
  ]);
});
