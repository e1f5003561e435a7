import { expect, it } from "vitest";
import { compared, scoreOf } from "./matches";
import { asId, chosenOf, stateName } from "./states";

it("a score needs both sides", () => {
  expect(scoreOf({ home_goals: 0, away_goals: 2 })).toBe("0 × 2");
  expect(scoreOf({ home_goals: 1, away_goals: null })).toBeNull();
});

it("the figures of both sides stand beside each other", () => {
  const stats = [
    { name: "fouls", side: "home", value: 9 },
    { name: "shots", side: "away", value: 4 },
    { name: "fouls", side: "away", value: 0 },
  ];
  expect(compared(stats)).toEqual([
    { name: "fouls", home: 9, away: 0 },
    { name: "shots", home: null, away: 4 },
  ]);
});

it("states have the console's names, those of documents their own", () => {
  expect(["DONE", "CANCELLED", "INCOMPLETE", "TRAVADO"].map(stateName)).toEqual([
    "completed",
    "canceled",
    "incomplete",
    "TRAVADO",
  ]);
});

it("what stands in an address is checked", () => {
  expect([asId("12"), asId("0"), asId("-1"), asId("1e3"), asId("x"), asId("9".repeat(30))]).toEqual(
    [12, null, null, null, null, null],
  );
  expect([
    chosenOf(["ERRO", "PULADO"], "PULADO"),
    chosenOf(["ERRO"], "ERROX"),
    chosenOf(["ERRO"], null),
  ]).toEqual(["PULADO", undefined, undefined]);
});
