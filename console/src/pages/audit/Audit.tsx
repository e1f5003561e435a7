import { Button, Group, Table, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { type FormEvent, useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import { eventList } from "../../api/engine";
import { addressOf } from "../../app/root";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Empty, Failed, Loading, PageHead } from "../../parts/States";
import { exportQuery, filterOf } from "./filter";

export default function Audit() {
  const t = useT();
  const [search, setSearch] = useSearchParams();
  const address = search.toString();
  const filter = useMemo(() => filterOf(new URLSearchParams(address)), [address]);
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const next = new URLSearchParams();
    for (const name of ["mission", "task", "types", "worker"]) {
      const value = given.get(name);
      if (typeof value === "string" && value.trim()) next.set(name, value.trim());
    }
    setSearch(next);
  };
  const download = (format: "csv" | "json") => addressOf(`api/events/export?${exportQuery(filter, format)}`);
  return (
    <>
      <PageHead title={t("nav.audit")}>
        <Button component="a" variant="default" href={download("csv")} download>
          {t("audit.csv")}
        </Button>
        <Button component="a" variant="default" href={download("json")} download>
          {t("audit.json")}
        </Button>
      </PageHead>
      <form onSubmit={submit} key={address} role="search" aria-label={t("filter.label")}>
        <Group align="flex-end" mb="md">
          <TextInput size="xs" name="mission" inputMode="numeric" label={t("audit.mission")} defaultValue={search.get("mission") ?? ""} />
          <TextInput size="xs" name="task" inputMode="numeric" label={t("audit.task")} defaultValue={search.get("task") ?? ""} />
          <TextInput size="xs" name="types" label={t("audit.types")} placeholder="scrape_failed, operator_action" defaultValue={search.get("types") ?? ""} />
          <TextInput size="xs" name="worker" label={t("audit.worker")} defaultValue={search.get("worker") ?? ""} />
          <Button size="xs" type="submit">
            {t("filter.apply")}
          </Button>
        </Group>
      </form>
      <Events filter={filter} />
    </>
  );
}

function Events({ filter }: { filter: ReturnType<typeof filterOf> }) {
  const t = useT();
  const format = useFormat();
  const list = useInfiniteQuery(useMemo(() => eventList(filter), [filter]));
  const events = list.data?.pages.flatMap((page) => page.items);
  if (!events) return list.error ? <Failed error={list.error} retry={() => void list.refetch()} /> : <Loading />;
  if (!events.length) return <Empty>{t("audit.none")}</Empty>;
  return (
    <>
      {list.error && <Failed error={list.error} retry={() => void list.refetch()} />}
      <Table.ScrollContainer minWidth={700} type="native" tabIndex={0}>
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
                <Table.Td>{event.task_id && <Link href={`/audit?task=${event.task_id}`}>{event.task_id}</Link>}</Table.Td>
                <Table.Td className="details">{event.details ? JSON.stringify(event.details) : ""}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      {list.hasNextPage && (
        <Button variant="default" mt="md" loading={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
          {t("act.more")}
        </Button>
      )}
    </>
  );
}
