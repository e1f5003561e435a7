import { parseId, parseOption, toTaskStatus } from "@console/components/statuses";
import { expect, it } from "vitest";
import { pairBySide, scoreOf } from "./matches";

it("a score needs the goals of both sides", () => {
  expect(scoreOf({ home_goals: 0, away_goals: 2 })).toBe("0 × 2");
  expect(scoreOf({ home_goals: 1, away_goals: null })).toBeNull();
});

it("pairs the statistics of both sides", () => {
  const stats = [
    { name: "fouls", side: "home", value: 9 },
    { name: "shots", side: "away", value: 4 },
    { name: "fouls", side: "away", value: 0 },
  ];
  expect(pairBySide(stats)).toEqual([
    { name: "fouls", home: 9, away: 0 },
    { name: "shots", home: null, away: 4 },
  ]);
});

it("maps statuses to task statuses, except those of documents", () => {
  expect(["DONE", "CANCELLED", "INCOMPLETE", "TRAVADO"].map(toTaskStatus)).toEqual([
    "completed",
    "canceled",
    "incomplete",
    "TRAVADO",
  ]);
});

it("validates values from the address", () => {
  expect([
    parseId("12"),
    parseId("0"),
    parseId("-1"),
    parseId("1e3"),
    parseId("x"),
    parseId("9".repeat(30)),
  ]).toEqual([12, null, null, null, null, null]);
  expect([
    parseOption(["ERRO", "PULADO"], "PULADO"),
    parseOption(["ERRO"], "ERROX"),
    parseOption(["ERRO"], null),
  ]).toEqual(["PULADO", undefined, undefined]);
});
