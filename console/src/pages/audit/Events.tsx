import { Button, Group, Text, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { type FormEvent, useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import { type Event, eventListQuery } from "../../api/engine";
import { urlOf } from "../../app/basePath";
import { type Columns, DataTable, PagedList } from "../../components/DataTable";
import { EmptyState } from "../../components/States";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
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
    urlOf(`api/events/export?${exportQuery(filter, format)}`);
  return (
    <>
      <search aria-label={t("filter.label")}>
        <form onSubmit={submit} key={address}>
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
      </search>
      <Group mb="md" gap="xs">
        <Button size="xs" component="a" variant="default" href={download("csv")} download>
          {t("audit.csv")}
        </Button>
        <Button size="xs" component="a" variant="default" href={download("json")} download>
          {t("audit.json")}
        </Button>
        <Text size="xs" c="dimmed">
          {t("audit.exportHelp")}
        </Text>
      </Group>
      <EventTable filter={filter} />
    </>
  );
}

function EventTable({ filter }: { filter: ReturnType<typeof filterOf> }) {
  const t = useT();
  const format = useFormat();
  const list = useInfiniteQuery(useMemo(() => eventListQuery(filter), [filter]));
  const columns: Columns<Event> = [
    [t("audit.at"), ({ at }) => format.time(at), "nowrap"],
    [t("audit.event"), ({ event }) => <span className="code">{event}</span>, "nowrap"],
    [
      t("audit.task"),
      ({ task_id }) => task_id && <Link href={`/audit?task=${task_id}`}>{task_id}</Link>,
    ],
    [
      t("audit.details"),
      ({ details }) =>
        details != null && <span className="details">{JSON.stringify(details)}</span>,
    ],
  ];
  return (
    <PagedList list={list} empty={<EmptyState>{t("audit.none")}</EmptyState>}>
      {(events) => (
        <DataTable
          label={t("audit.tab.events")}
          columns={columns}
          rows={events}
          keyOf={({ position }) => position}
          minWidth={700}
        />
      )}
    </PagedList>
  );
}
