// An address that came from outside is a link only when it leads to a web page: never javascript:, data: or the like.
export function webAddress(given: string | null | undefined): string | null {
  if (!given) return null;
  try {
    const { protocol, href } = new URL(given);
    return protocol === "https:" || protocol === "http:" ? href : null;
  } catch {
    return null;
  }
}
