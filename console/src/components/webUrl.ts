// The URL if it is http or https, else null: external data must not become a javascript: or data:
// link.
export function webUrl(given: string | null | undefined): string | null {
  if (!given) return null;
  try {
    const { protocol, href } = new URL(given);
    return protocol === "https:" || protocol === "http:" ? href : null;
  } catch {
    return null;
  }
}
