import type { MessageId } from "../i18n";

// Pages in the order of the navigation; g and the letter opens the page.
export const PAGES: { path: string; name: MessageId; letter: string }[] = [
  { path: "/", name: "nav.overview", letter: "o" },
  { path: "/missions", name: "nav.missions", letter: "m" },
  { path: "/batches", name: "nav.batches", letter: "b" },
  { path: "/results", name: "nav.results", letter: "e" },
  { path: "/failures", name: "nav.failures", letter: "f" },
  { path: "/fleet", name: "nav.fleet", letter: "w" },
  { path: "/runners", name: "nav.runners", letter: "r" },
  { path: "/audit", name: "nav.audit", letter: "a" },
  { path: "/settings", name: "nav.settings", letter: "s" },
];

export const isActive = (path: string, here: string): boolean =>
  path === "/" ? here === "/" : here.startsWith(path);
