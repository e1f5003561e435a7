// The one error for failed requests, with a stable code.
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = "Problem";
  }

  get isOffline(): boolean {
    return this.status === 0;
  }
}

type Answer<T> = { data?: T; error?: unknown; response: Response };

const textOf = (thing: unknown, key: string): string | undefined => {
  if (typeof thing !== "object" || thing === null) return undefined;
  const value = (thing as Record<string, unknown>)[key];
  return typeof value === "string" ? value : undefined;
};

// Returns the data of a successful response and throws a Problem otherwise.
export async function unwrap<T>(asked: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await asked;
  } catch (error) {
    throw new Problem(0, "OFFLINE", error instanceof Error ? error.message : String(error));
  }
  const { data, error, response } = answer;
  if (response.ok) return data as T;
  const said = textOf(error, "detail") ?? textOf(error, "title") ?? response.statusText;
  throw new Problem(response.status, textOf(error, "code") ?? `HTTP_${response.status}`, said);
}

export const toProblem = (error: unknown): Problem =>
  error instanceof Problem
    ? error
    : new Problem(0, "UNKNOWN", error instanceof Error ? error.message : String(error));
