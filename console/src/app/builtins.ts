// Which pipelines that come with Regente are on: the server writes their pages into the document. A
// document without them, as in development, shows all.
const told = document
  .querySelector<HTMLMetaElement>('meta[name="regente-pages"]')
  ?.content.split(" ");

export const isOn = (page: string): boolean => told === undefined || told.includes(page);

export const HAS_MISSIONS = isOn("missions");

// Pages in the order of the server's list.
export const inOrder = <T extends { name: string }>(pages: T[]): T[] => {
  const place = ({ name }: T) => told?.indexOf(name) ?? 0;
  return [...pages].sort((a, b) => place(a) - place(b));
};
