import { Button, Group, Table, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { type FormEvent, useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import { eventList } from "../../api/engine";
import { addressOf } from "../../app/root";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Empty, Failed, Loading } from "../../parts/States";
import { exportQuery, FIELDS, filterOf } from "./filter";

export function Events() {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const address = search.toString();
  const filter = useMemo(() => filterOf(new URLSearchParams(address)), [address]);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const next = new URLSearchParams();
    for (const name of FIELDS) {
      const value = given.get(name);
      if (typeof value === "string" && value.trim()) next.set(name, value.trim());
    }
    setSearch(next);
  };
  const field = (name: (typeof FIELDS)[number]) =>
    ({
      size: "xs",
      name,
      label: t(`audit.${name}`),
      defaultValue: search.get(name) ?? "",
    }) as const;
  const download = (format: "csv" | "json") =>
    addressOf(`api/events/export?${exportQuery(filter, format)}`);
  return (
    <>
      <form onSubmit={submit} key={address} role="search" aria-label={t("filter.label")}>
        <Group align="flex-end" mb="xs" gap="xs">
          <TextInput {...field("mission")} inputMode="numeric" w={68} />
          <TextInput {...field("task")} inputMode="numeric" w={68} />
          <TextInput {...field("batch")} inputMode="numeric" w={68} />
          <TextInput {...field("types")} placeholder="scrape_failed, operator_action" w={180} />
          <TextInput {...field("worker")} w={110} />
          <TextInput {...field("since")} type="datetime-local" w={182} />
          <TextInput {...field("until")} type="datetime-local" w={182} />
          <Button size="xs" type="submit">
            {t("filter.apply")}
          </Button>
          {address && (
            <Button size="xs" variant="subtle" onClick={() => setSearch({})}>
              {t("filter.clear")}
            </Button>
          )}
        </Group>
      </form>
      <Group mb="md" gap="xs">
        <Button size="xs" component="a" variant="default" href={download("csv")} download>
          {t("audit.csv")}
        </Button>
        <Button size="xs" component="a" variant="default" href={download("json")} download>
          {t("audit.json")}
        </Button>
        <Text size="xs" c="dimmed">
          {t("audit.exportHow")}
        </Text>
      </Group>
      <EventTable filter={filter} />
    </>
  );
}

function EventTable({ filter }: { filter: ReturnType<typeof filterOf> }) {
  const t = useT();
  const format = useFormat();
  const list = useInfiniteQuery(useMemo(() => eventList(filter), [filter]));
  const events = list.data?.pages.flatMap((page) => page.items);
  if (!events)
    return list.error ? (
      <Failed error={list.error} retry={() => void list.refetch()} />
    ) : (
      <Loading />
    );
  if (!events.length) return <Empty>{t("audit.none")}</Empty>;
  return (
    <>
      {list.error && <Failed error={list.error} retry={() => void list.refetch()} />}
      <Table.ScrollContainer
        minWidth={700}
        type="native"
        tabIndex={0}
        role="region"
        aria-label={t("audit.tab.events")}
      >
        <Table highlightOnHover>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("audit.at")}</Table.Th>
              <Table.Th>{t("audit.event")}</Table.Th>
              <Table.Th>{t("audit.task")}</Table.Th>
              <Table.Th>{t("audit.details")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {events.map((event) => (
              <Table.Tr key={event.position}>
                <Table.Td className="nowrap">{format.time(event.at)}</Table.Td>
                <Table.Td className="code nowrap">{event.event}</Table.Td>
                <Table.Td>
                  {event.task_id && (
                    <Link href={`/audit?task=${event.task_id}`}>{event.task_id}</Link>
                  )}
                </Table.Td>
                <Table.Td className="details">
                  {event.details ? JSON.stringify(event.details) : ""}
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
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
