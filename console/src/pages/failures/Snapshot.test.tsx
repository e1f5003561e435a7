import { I18nProvider } from "@lingui/react";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen } from "@testing-library/react";
import { beforeAll, expect, it } from "vitest";
import { snapshotQuery } from "../../api/engine";
import { activateLanguage, i18n } from "../../i18n";
import { Snapshot, sandboxedHtml } from "./Snapshot";

const HOSTILE = `<script>parent.document.title = "taken"</script><img src=x onerror="alert(1)">`;

beforeAll(() => activateLanguage("en"));

it("the policy precedes the scraped content", () => {
  expect(sandboxedHtml(HOSTILE).indexOf("default-src 'none'")).toBeLessThan(
    sandboxedHtml(HOSTILE).indexOf("<script"),
  );
});

it("is text first, and a page only in a sandboxed frame", async () => {
  window.matchMedia ??= () =>
    ({
      matches: false,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
    }) as unknown as MediaQueryList;
  const queries = new QueryClient();
  queries.setQueryData(snapshotQuery(1, "page").queryKey, HOSTILE);
  render(
    <I18nProvider i18n={i18n}>
      <MantineProvider>
        <QueryClientProvider client={queries}>
          <Snapshot failureId={1} name="page" size="10" contentType="text/html" />
        </QueryClientProvider>
      </MantineProvider>
    </I18nProvider>,
  );
  fireEvent.click(screen.getByRole("button", { name: /as text/ }));
  expect(screen.getByRole("region", { name: "page" }).textContent).toBe(HOSTILE);
  expect(document.querySelector("img")).toBeNull();
  fireEvent.click(screen.getByRole("button", { name: /as a page/ }));
  const frame = screen.getByTitle("page");
  expect(frame.getAttribute("sandbox")).toBe("");
  expect(document.querySelector("script")).toBeNull();
});
