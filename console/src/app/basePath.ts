// URL of the console with a trailing slash. Derived from the URL of this module (…/assets/name.js),
// so that one build works at the root and under any path prefix.
export const ROOT =
  import.meta.env.DEV || import.meta.env.MODE === "test"
    ? new URL("/", location.href)
    : new URL("..", import.meta.url);

export const BASE_PATH = ROOT.pathname.replace(/\/$/, "");

export const urlOf = (path: string): string => new URL(path.replace(/^\//, ""), ROOT).href;
