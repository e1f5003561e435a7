import { I18nProvider } from "@lingui/react";
import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { activateLanguage, i18n, preferredLanguage, useT } from ".";
import { en } from "./en";
import { formatFor } from "./format";
import { ptBR } from "./pt-BR";

const placeholders = (message: string) =>
  [...message.matchAll(/\{(\w+)[,}]/g)].map((match) => match[1]).sort();

type Texts = Record<string, string>;
const ofBuiltins = import.meta.glob<{ en: Texts; ptBR: Texts }>(
  "../../../src/regente/pipelines/*/console/messages.ts",
  { eager: true },
);
const catalogs = [{ en, ptBR } as { en: Texts; ptBR: Texts }, ...Object.values(ofBuiltins)];

it("both languages have the same messages with the same placeholders", () => {
  expect(catalogs.length).toBeGreaterThan(4);
  for (const catalog of catalogs) {
    expect(Object.keys(catalog.ptBR)).toEqual(Object.keys(catalog.en));
    for (const [id, text] of Object.entries(catalog.en))
      expect([id, new Set(placeholders(catalog.ptBR[id] ?? ""))]).toEqual([
        id,
        new Set(placeholders(text)),
      ]);
  }
});

it("no page takes the id of another text", () => {
  const ids = catalogs.flatMap((catalog) => Object.keys(catalog.en));
  expect(ids.filter((id, place) => ids.indexOf(id) !== place)).toEqual([]);
});

it("contains the words of the specification", () => {
  const words = [
    "Selecionar Missões",
    "Adicionar à fila",
    "Cancelar",
    "Iniciar",
    "Continuar de onde parou",
    "Reprocessar apenas erros",
    "Travado",
    "TRAVADO",
    "Tudo certo",
  ];
  for (const word of words) expect(Object.values(ptBR)).toContain(word);
});

it("uses the browser's language unless one was chosen", () => {
  expect(preferredLanguage(null, ["pt-PT", "en"])).toBe("pt-BR");
  expect(preferredLanguage(null, ["de", "en-GB"])).toBe("en");
  expect(preferredLanguage("en", ["pt-BR"])).toBe("en");
});

function Needs({ count }: { count: number }) {
  return <p>{useT()("verdict.needs", { count })}</p>;
}

it("formats plurals", async () => {
  await activateLanguage("pt-BR");
  render(
    <I18nProvider i18n={i18n}>
      <Needs count={3} />
      <Needs count={1} />
    </I18nProvider>,
  );
  expect(screen.getByText("3 itens requerem atenção")).toBeTruthy();
  expect(screen.getByText("1 item requer atenção")).toBeTruthy();
});

it("the day of a mission does not depend on the time zone", () => {
  expect(formatFor("pt-BR").day("2025-01-15")).toBe("15/01/2025");
  expect(formatFor("en").duration(90)).toBe("1.5 min");
  expect([formatFor("en").milliseconds(41.6), formatFor("en").milliseconds(90_000)]).toEqual([
    "42 ms",
    "1.5 min",
  ]);
});

it("formats money, and shows an unknown currency as it is", () => {
  expect(formatFor("en").money("1234.5", "BRL")).toBe("R$1,234.50");
  expect(formatFor("pt-BR").money("1234.5", "R$<b>")).toBe("R$<b> 1.234,50");
  expect(formatFor("en").money(2, null)).toBe("2.00");
});
