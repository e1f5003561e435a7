// Commands of the palette and the search over them.
export interface Command {
  id: string;
  name: string;
  kind: "page" | "action";
  keys?: string;
  run: () => void;
}

const normalize = (text: string): string =>
  text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

// Matches when the name contains the query, or when each word of the query starts a word of the name.
export function filterCommands(commands: readonly Command[], query: string): Command[] {
  const normalized = normalize(query).trim();
  if (!normalized) return [...commands];
  const words = normalized.split(/\s+/);
  return commands.filter(({ name }) => {
    const parts = normalize(name).split(/\s+/);
    return (
      normalize(name).includes(normalized) ||
      words.every((word) => parts.some((part) => part.startsWith(word)))
    );
  });
}

export const parseMissionId = (query: string): number | null => {
  const id = /^\s*#?(\d{1,15})\s*$/.exec(query)?.[1];
  return id && Number(id) > 0 ? Number(id) : null;
};
