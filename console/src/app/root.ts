// Where the console lies, with a slash at its end. Found from the place of this very file (…/assets/name.js), so that the
// same build works at the root and under any path prefix.
export const ROOT =
  import.meta.env.DEV || import.meta.env.MODE === "test"
    ? new URL("/", location.href)
    : new URL("..", import.meta.url);

export const BASE_PATH = ROOT.pathname.replace(/\/$/, "");

export const addressOf = (path: string): string => new URL(path.replace(/^\//, ""), ROOT).href;
