import { I18nProvider } from "@lingui/react";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { fireEvent, render, screen } from "@testing-library/react";
import { beforeAll, expect, it } from "vitest";
import { snapshotText } from "../../api/engine";
import { i18n, speak } from "../../i18n";
import { harmless, Snapshot } from "./Snapshot";

const HOSTILE = `<script>parent.document.title = "taken"</script><img src=x onerror="alert(1)">`;

beforeAll(() => speak("en"));

it("the policy comes before anything that was scraped", () => {
  expect(harmless(HOSTILE).indexOf("default-src 'none'")).toBeLessThan(
    harmless(HOSTILE).indexOf("<script"),
  );
});

it("is text at first, and a page only in a frame that may do nothing", async () => {
  window.matchMedia ??= () =>
    ({
      matches: false,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
    }) as unknown as MediaQueryList;
  const queries = new QueryClient();
  queries.setQueryData(snapshotText(1, "page").queryKey, HOSTILE);
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
