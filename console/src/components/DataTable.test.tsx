import { I18nProvider } from "@lingui/react";
import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider, useInfiniteQuery } from "@tanstack/react-query";
import { fireEvent, render, screen } from "@testing-library/react";
import { beforeAll, expect, it } from "vitest";
import { activateLanguage, i18n } from "../i18n";
import { DataTable, PagedList } from "./DataTable";

beforeAll(() => activateLanguage("en"));

interface Page {
  items: number[];
  next: string | null;
}

function Numbers({ pages }: { pages: Record<string, Page> }) {
  const list = useInfiniteQuery({
    queryKey: ["numbers"],
    queryFn: ({ pageParam }) => Promise.resolve(pages[pageParam ?? "first"]!),
    initialPageParam: null as string | null,
    getNextPageParam: (page: Page) => page.next,
  });
  return (
    <PagedList list={list} empty={<p>nothing</p>}>
      {(rows) => (
        <DataTable
          label="Numbers"
          columns={[["Number", (row: number) => `no. ${row}`]]}
          rows={rows}
          keyOf={(row) => row}
        />
      )}
    </PagedList>
  );
}

const show = (pages: Record<string, Page>) => {
  window.matchMedia ??= () =>
    ({
      matches: false,
      addEventListener: () => undefined,
      removeEventListener: () => undefined,
    }) as unknown as MediaQueryList;
  render(
    <I18nProvider i18n={i18n}>
      <MantineProvider>
        <QueryClientProvider client={new QueryClient()}>
          <Numbers pages={pages} />
        </QueryClientProvider>
      </MantineProvider>
    </I18nProvider>,
  );
};

it("appends the next page by its cursor until there is none", async () => {
  show({ first: { items: [9, 8], next: "8" }, "8": { items: [7], next: null } });
  fireEvent.click(await screen.findByRole("button", { name: "Show more" }));
  await screen.findByText("no. 7");
  expect(screen.getAllByRole("cell").map(({ textContent }) => textContent)).toEqual([
    "no. 9",
    "no. 8",
    "no. 7",
  ]);
  expect(screen.queryByRole("button", { name: "Show more" })).toBeNull();
  expect(screen.getByRole("region", { name: "Table: Numbers" }).tabIndex).toBe(0);
});

it("shows the empty state of an empty list", async () => {
  show({ first: { items: [], next: null } });
  expect(await screen.findByText("nothing")).toBeTruthy();
  expect(screen.queryByRole("table")).toBeNull();
});
