// Maps the statuses of quotes, rounds and matches to task statuses. Documents keep the names of their
// specification.
const NAMES: Record<string, string> = {
  PENDING: "pending",
  PROCESSING: "running",
  RUNNING: "running",
  DONE: "completed",
  FINISHED: "completed",
  ERROR: "failed",
  FAILED: "failed",
  CANCELLED: "canceled",
  CANCELED: "canceled",
  SKIPPED: "skipped",
  INCOMPLETE: "incomplete",
  MISSING: "missing",
};

export const toTaskStatus = (state: string): string => NAMES[state] ?? state;

export const parseId = (text: string): number | null =>
  /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;

export const parseOption = <T extends string>(
  states: readonly T[],
  given: string | null,
): T | undefined => states.find((one) => one === given);
