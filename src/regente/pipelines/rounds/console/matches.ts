import type { MatchDetail, Round, RoundMatch } from "./queries";

export const scoreOf = ({
  home_goals,
  away_goals,
}: Pick<RoundMatch, "home_goals" | "away_goals">): string | null =>
  home_goals === null || away_goals === null ? null : `${home_goals} × ${away_goals}`;

// The number of matches that a retry runs again.
export const notStored = ({ failed, skipped, canceled, missing }: Round): number =>
  failed + skipped + canceled + missing;

export interface StatisticPair {
  name: string;
  home: number | null;
  away: number | null;
}

// The value of each side for each statistic.
export function pairBySide(stats: MatchDetail["stat_list"]): StatisticPair[] {
  const found = new Map<string, StatisticPair>();
  for (const { name, side, value } of stats) {
    const row = found.get(name) ?? { name, home: null, away: null };
    found.set(name, { ...row, [side === "home" ? "home" : "away"]: value });
  }
  return [...found.values()];
}
