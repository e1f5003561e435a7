// Two languages. Unknown and missing message ids are compile errors.
import { type Messages, setupI18n } from "@lingui/core";
import { compileMessage } from "@lingui/message-utils/compileMessage";
import { useLingui } from "@lingui/react";
import { useMemo } from "react";
import type { en } from "./en";

export type MessageId = keyof typeof en;
export type Catalog = Record<MessageId, string>;
export type Language = "en" | "pt-BR";
export type Translate = (id: MessageId, values?: Record<string, string | number>) => string;

export const LANGUAGES: Record<Language, string> = { "pt-BR": "Português", en: "English" };
const STORAGE_KEY = "regente.language";

export const i18n = setupI18n();
// Lingui compiles a message at each use; the cache compiles it once.
const compiled = new Map<string, ReturnType<typeof compileMessage>>();
i18n.setMessagesCompiler((message) => {
  const known = compiled.get(message) ?? compileMessage(message);
  compiled.set(message, known);
  return known;
});

const load = async (language: Language): Promise<Messages> =>
  language === "en" ? (await import("./en")).en : (await import("./pt-BR")).ptBR;

export function preferredLanguage(kept: string | null, wanted: readonly string[]): Language {
  if (kept === "en" || kept === "pt-BR") return kept;
  for (const tag of wanted) {
    if (tag.toLowerCase().startsWith("pt")) return "pt-BR";
    if (tag.toLowerCase().startsWith("en")) return "en";
  }
  return "en";
}

export async function activateLanguage(language: Language): Promise<void> {
  i18n.loadAndActivate({ locale: language, messages: await load(language) });
  document.documentElement.lang = language;
}

export const activatePreferredLanguage = (): Promise<void> =>
  activateLanguage(preferredLanguage(localStorage.getItem(STORAGE_KEY), navigator.languages));

export function chooseLanguage(language: Language): Promise<void> {
  localStorage.setItem(STORAGE_KEY, language);
  return activateLanguage(language);
}

export function useT(): Translate {
  const lingui = useLingui();
  return useMemo<Translate>(() => (id, values) => lingui.i18n._(id, values), [lingui]);
}

// True for ids with a message: codes of the server that have a translation.
export const isMessageId = (id: string): id is MessageId => i18n.messages[id] !== undefined;

type Values = Record<string, string | number>;

// The texts of one page beside the console's own. Both languages have the same messages.
export function withMessages<Own extends Record<string, string>>(
  en: Own,
  ptBR: Record<keyof Own, string>,
) {
  const own: Record<string, Record<string, string>> = { en, "pt-BR": ptBR };
  type Id = MessageId | (keyof Own & string);
  const isOwn = (id: string): id is Id => id in en || isMessageId(id);
  function useOwnT(): (id: Id, values?: Values) => string {
    const lingui = useLingui();
    return useMemo(
      () => (id, values) =>
        lingui.i18n._(id, values, { message: own[lingui.i18n.locale]?.[id] ?? id }),
      [lingui],
    );
  }
  return { useT: useOwnT, isMessageId: isOwn };
}
