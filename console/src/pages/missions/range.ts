// The form for a range of missions: validation, number of missions and request.
import type { Mission, MissionRange } from "../../api/missions";

export const MAX_MISSIONS = 20_000;
const MEDIA: MissionRange["media_types"] = ["all", "video", "image"];
const DAY_MS = 86_400_000;
const LANGUAGE = /^[a-z]{2,3}(-[A-Za-z0-9]{2,8})?$/;

export interface RangeForm {
  from: string;
  to: string;
  media: MissionRange["media_types"];
  languages: string;
  onePerLanguage: boolean;
  daysEach: number;
}

export const languagesOf = (text: string): string[] => [
  ...new Set(text.split(/[\s,;]+/).filter(Boolean)),
];

export const daysBetween = (from: string, to: string): number => {
  const days = (Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / DAY_MS + 1;
  return Number.isFinite(days) ? days : 0;
};

export type InvalidReason = "days" | "media" | "languages" | "daysEach" | "tooMany";

export function validateForm(draft: RangeForm): InvalidReason | null {
  const languages = languagesOf(draft.languages);
  if (daysBetween(draft.from, draft.to) < 1) return "days";
  if (!draft.media.length) return "media";
  if (!languages.length || !languages.every((one) => LANGUAGE.test(one))) return "languages";
  if (!Number.isInteger(draft.daysEach) || draft.daysEach < 1) return "daysEach";
  return missionCount(draft) > MAX_MISSIONS ? "tooMany" : null;
}

export function missionCount({
  from,
  to,
  media,
  languages,
  onePerLanguage,
  daysEach,
}: RangeForm): number {
  const days = Math.max(0, daysBetween(from, to));
  const groups = onePerLanguage
    ? languagesOf(languages).length
    : Math.min(1, languagesOf(languages).length);
  return Math.ceil(days / Math.max(1, daysEach)) * media.length * groups;
}

export function missionRange(draft: RangeForm): MissionRange {
  const languages = languagesOf(draft.languages);
  return {
    date_start: draft.from,
    date_end: draft.to,
    media_types: draft.media,
    languages: draft.onePerLanguage ? languages.map((one) => [one]) : [languages],
    days_each: draft.daysEach,
  };
}

// The form values that create the same mission again.
export const formOf = ({
  date_start,
  date_end,
  media_type,
  languages,
}: Pick<Mission, "date_start" | "date_end" | "media_type" | "languages">): RangeForm => ({
  from: date_start,
  to: date_end,
  media: MEDIA.filter((one) => one === media_type),
  languages: languages.join(", "),
  onePerLanguage: false,
  daysEach: daysBetween(date_start, date_end),
});
