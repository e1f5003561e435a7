// A table defined by its columns, and a list that loads page by page.
import { Button, Table } from "@mantine/core";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useT } from "../i18n";
import { ErrorAlert, Loading } from "./States";

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

// The region has a label of its own, because it is often inside a section with the same title.
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

interface PagedListProps<T> {
  list: UseInfiniteQueryResult<InfiniteData<{ items: T[] }>>;
  empty: ReactNode;
  children: (items: T[]) => ReactNode;
}

export function PagedList<T>({ list, empty, children }: PagedListProps<T>) {
  const t = useT();
  const items = list.data?.pages.flatMap((page) => page.items);
  const failed = list.error ? (
    <ErrorAlert error={list.error} retry={() => void list.refetch()} />
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
          {t("common.more")}
        </Button>
      )}
    </>
  );
}
