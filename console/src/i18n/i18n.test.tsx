import { I18nProvider } from "@lingui/react";
import { render, screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { activateLanguage, i18n, type MessageId, preferredLanguage, useT } from ".";
import { en } from "./en";
import { formatFor } from "./format";
import { ptBR } from "./pt-BR";

const placeholders = (message: string) =>
  [...message.matchAll(/\{(\w+)[,}]/g)].map((match) => match[1]).sort();

it("both languages have the same messages with the same placeholders", () => {
  expect(Object.keys(ptBR)).toEqual(Object.keys(en));
  for (const id of Object.keys(en) as MessageId[])
    expect([id, new Set(placeholders(ptBR[id]))]).toEqual([id, new Set(placeholders(en[id]))]);
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
