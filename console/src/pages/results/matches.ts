import type { MatchDetail, Round, RoundMatch } from "../../api/results";

export const scoreOf = ({
  home_goals,
  away_goals,
}: Pick<RoundMatch, "home_goals" | "away_goals">): string | null =>
  home_goals === null || away_goals === null ? null : `${home_goals} × ${away_goals}`;

// What a retry would run again.
export const wanting = ({ failed, skipped, canceled, missing }: Round): number =>
  failed + skipped + canceled + missing;

export interface Compared {
  name: string;
  home: number | null;
  away: number | null;
}

// Both sides of each figure beside each other.
export function compared(stats: MatchDetail["stat_list"]): Compared[] {
  const found = new Map<string, Compared>();
  for (const { name, side, value } of stats) {
    const row = found.get(name) ?? { name, home: null, away: null };
    found.set(name, { ...row, [side === "home" ? "home" : "away"]: value });
  }
  return [...found.values()];
}
