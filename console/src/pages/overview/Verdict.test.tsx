import { I18nProvider } from "@lingui/react";
import { MantineProvider } from "@mantine/core";
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, beforeAll, expect, it } from "vitest";
import { activateLanguage, i18n } from "../../i18n";
import { Verdict } from "./Verdict";

beforeAll(() => {
  window.matchMedia ??= () =>
    ({
      matches: false,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
    }) as unknown as MediaQueryList;
});

afterEach(cleanup);

async function show(language: "en" | "pt-BR", ...codes: [string, number][]) {
  await activateLanguage(language);
  const attention = codes.map(([code, count]) => ({ code, count, message: "of the server" }));
  render(
    <MantineProvider>
      <I18nProvider i18n={i18n}>
        <Verdict attention={attention} />
      </I18nProvider>
    </MantineProvider>,
  );
}

it("a problem of a built-in has the text and the link of its page", async () => {
  await show("pt-BR", ["MATCHES_FAILED", 1], ["ROUNDS_FAILED", 2]);
  const match = screen.getByRole("link", { name: "1 partida falhou definitivamente" });
  expect(match.getAttribute("href")).toBe("/results?of=rounds");
  screen.getByRole("link", { name: "2 rodadas cuja página não pôde ser lida" });
});

it("an unknown problem has the text of the server and no link", async () => {
  await show("en", ["EARTHQUAKE", 3], ["DEAD_LETTERS", 1]);
  expect(screen.getByText("3 of the server")).toBeTruthy();
  expect(screen.getAllByRole("link").map((link) => link.textContent)).toEqual([
    "1 task failed permanently",
  ]);
});
