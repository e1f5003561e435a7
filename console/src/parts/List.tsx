// A list that comes page by page, as a table.
import { Button, Table } from "@mantine/core";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useT } from "../i18n";
import { Failed, Loading } from "./States";

export type Columns<T> = readonly (readonly [
  title: string,
  cell: (row: T) => ReactNode,
  look?: string,
])[];

interface DataTableProps<T> {
  label: string;
  columns: Columns<T>;
  rows: readonly T[];
  keyOf: (row: T) => string | number;
  minWidth?: number;
}

// It stands in a part of the same name, and two regions are not called the same.
export function DataTable<T>({ label, columns, rows, keyOf, minWidth = 640 }: DataTableProps<T>) {
  const t = useT();
  return (
    <Table.ScrollContainer
      minWidth={minWidth}
      type="native"
      tabIndex={0}
      role="region"
      aria-label={t("results.table", { name: label })}
    >
      <Table highlightOnHover className="tight dense">
        <Table.Thead>
          <Table.Tr>
            {columns.map(([title, , look]) => (
              <Table.Th key={title} className={look}>
                {title}
              </Table.Th>
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <Table.Tr key={keyOf(row)}>
              {columns.map(([title, cell, look]) => (
                <Table.Td key={title} className={look}>
                  {cell(row)}
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}

interface PagedProps<T> {
  list: UseInfiniteQueryResult<InfiniteData<{ items: T[] }>>;
  empty: ReactNode;
  children: (items: T[]) => ReactNode;
}

export function Paged<T>({ list, empty, children }: PagedProps<T>) {
  const t = useT();
  const items = list.data?.pages.flatMap((page) => page.items);
  const failed = list.error ? (
    <Failed error={list.error} retry={() => void list.refetch()} />
  ) : null;
  if (!items) return failed ?? <Loading />;
  return (
    <>
      {failed}
      {items.length ? children(items) : empty}
      {list.hasNextPage && (
        <Button
          variant="default"
          mt="md"
          loading={list.isFetchingNextPage}
          onClick={() => void list.fetchNextPage()}
        >
          {t("act.more")}
        </Button>
      )}
    </>
  );
}
