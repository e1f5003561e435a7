// The states of quotes, rounds and matches, by the names that the console has for all tasks. Those of documents stay as their
// specification writes them.
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

export const stateName = (state: string): string => NAMES[state] ?? state;

export const asId = (text: string): number | null =>
  /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;

export const chosenOf = <T extends string>(
  states: readonly T[],
  given: string | null,
): T | undefined => states.find((one) => one === given);
