import { activateLanguage, i18n } from "@console/i18n";
import { I18nProvider } from "@lingui/react";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import { beforeAll, expect, it } from "vitest";
import { QuotePage } from "./QuotePage";
import { type QuoteDetail, type QuoteSource, quoteQuery } from "./queries";

const source = (position: number, more: Partial<QuoteSource>): QuoteSource => ({
  position,
  source: `shop ${position}`,
  title: `chair ${position}`,
  url: "https://shop.example/",
  price: "100.00",
  currency: "BRL",
  method: "json_ld",
  excerpt: null,
  page_sha256: null,
  screenshot: false,
  fetched_at: "2026-11-15T10:00:00Z",
  error: null,
  outlier: false,
  details: {},
  ...more,
});

const QUOTE: QuoteDetail = {
  id: 42,
  status: "DONE",
  description: "A chair",
  reference: null,
  lot: null,
  batch_id: null,
  kind: "product",
  value: "100.00",
  currency: "BRL",
  processing_checkpoint: "COMPLETED",
  progress_percentage: 100,
  last_heartbeat: null,
  worker_id: null,
  attempt_number: 1,
  created_at: "2026-11-15T10:00:00Z",
  started_at: null,
  completed_at: null,
  error_code: null,
  error_message: null,
  search_query: "chair",
  analysis: null,
  resume_data: {},
  checkpoints: [],
  statistics: { median: "100.00", mean: "100.00", kept: 2, prices: 3, outliers: 1 },
  sources: [
    source(1, { screenshot: true }),
    source(2, { url: "javascript:alert(1)", title: "<img src=x onerror=alert(1)>" }),
    source(3, { price: "1000.00", outlier: true }),
    source(4, { price: null, method: null, error: "HTTP_503" }),
  ],
};

beforeAll(() => activateLanguage("en"));

it("shows for each source whether its price is kept and why not, and no unsafe link", () => {
  window.matchMedia ??= () =>
    ({
      matches: false,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
    }) as unknown as MediaQueryList;
  const queries = new QueryClient({
    defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } },
  });
  queries.setQueryData(quoteQuery(42).queryKey, QUOTE);
  render(
    <I18nProvider i18n={i18n}>
      <MantineProvider>
        <QueryClientProvider client={queries}>
          <QuotePage id={42} />
        </QueryClientProvider>
      </MantineProvider>
    </I18nProvider>,
  );
  const row = (shop: string) => screen.getByRole("cell", { name: shop }).closest("tr")!;
  expect(within(row("shop 1")).getByText("✓ kept")).toBeTruthy();
  expect(within(row("shop 3")).getByText("✗ outlier: 10 times the median")).toBeTruthy();
  expect(within(row("shop 4")).getByText("✗ HTTP_503")).toBeTruthy();
  expect(within(row("shop 2")).queryByRole("link")).toBeNull();
  const image = within(row("shop 1")).getByRole("link", { name: /Page as an image/ });
  expect(image.getAttribute("href")).toMatch(/\/api\/quotes\/42\/sources\/1\/image$/);
  expect(document.querySelector("img")).toBeNull();
});
