// All that the palette offers, and how what one types finds it.
export interface Command {
  id: string;
  name: string;
  kind: "page" | "act";
  keys?: string;
  run: () => void;
}

const plain = (text: string): string => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

// Every word that was typed begins a word of the name, or the name holds all of it.
export function matching(commands: readonly Command[], typed: string): Command[] {
  const wanted = plain(typed).trim();
  if (!wanted) return [...commands];
  const words = wanted.split(/\s+/);
  return commands.filter(({ name }) => {
    const parts = plain(name).split(/\s+/);
    return (
      plain(name).includes(wanted) ||
      words.every((word) => parts.some((part) => part.startsWith(word)))
    );
  });
}

export const missionIn = (typed: string): number | null => {
  const id = /^\s*#?(\d{1,15})\s*$/.exec(typed)?.[1];
  return id && Number(id) > 0 ? Number(id) : null;
};
