// Which pipelines that come with Regente are on: the server writes their pages into the document. A document without them, as
// in development, shows all.
const told = document
  .querySelector<HTMLMetaElement>('meta[name="regente-pages"]')
  ?.content.split(" ");

export const isOn = (page: string): boolean => told === undefined || told.includes(page);
