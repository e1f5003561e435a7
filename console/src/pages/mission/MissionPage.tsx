import { Alert, Anchor, Group, Paper, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { type Deed, type Mission, actOnMission, failedItems, missionKeys, missionOne, missionTimeline, missionWhy } from "../../api/missions";
import { statsKey } from "../../api/operations";
import { useMay } from "../../app/access";
import { knownId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { Empty, Loaded, NotFound, PageHead } from "../../parts/States";
import { Status } from "../../parts/Status";
import { ActButton, Confirmed } from "../../parts/act";
import { Lanes } from "./Lanes";

const MAY: Record<Deed, Mission["status"][]> = { queue: ["draft"], cancel: ["draft", "queued", "running"], retry: ["failed", "canceled"] };

export default function MissionPage({ id }: { id: number }) {
  const t = useT();
  const one = useQuery({ ...missionOne(id), enabled: Number.isSafeInteger(id) && id > 0 });
  if (!(Number.isSafeInteger(id) && id > 0)) return <NotFound />;
  return (
    <>
      <Anchor component={Link} href="/missions" size="sm">
        ← {t("nav.missions")}
      </Anchor>
      <Loaded query={one}>
        {(mission) => (
          <>
            <PageHead title={t("mission.title", { id })}>
              <Deeds mission={mission} />
            </PageHead>
            <Stack>
              <WhyNot mission={mission} />
              <Facts mission={mission} />
              <History mission={mission} />
              {(mission.failed_count ?? 0) > 0 && <FailedItems id={id} />}
            </Stack>
          </>
        )}
      </Loaded>
    </>
  );
}

function Deeds({ mission }: { mission: Mission }) {
  const t = useT();
  const mayAct = useMay("operator");
  if (!mayAct) return null;
  const stale = [missionKeys.all, statsKey];
  const can = (deed: Deed) => MAY[deed].includes(mission.status) && !mission.canceling;
  return (
    <>
      {can("queue") && (
        <ActButton act={() => actOnMission("queue", mission.id)} stale={stale}>
          {t("deed.queue")}
        </ActButton>
      )}
      {can("retry") && (
        <ActButton act={() => actOnMission("retry", mission.id)} stale={stale}>
          {t("deed.retry")}
        </ActButton>
      )}
      {can("cancel") && (
        <Confirmed color="red" variant="outline" act={() => actOnMission("cancel", mission.id)} stale={stale} question={t("mission.cancelQuestion", { id: mission.id })}>
          {t("deed.cancel")}
        </Confirmed>
      )}
    </>
  );
}

function WhyNot({ mission }: { mission: Mission }) {
  const t = useT();
  const waits = mission.status === "queued" || mission.status === "running" || mission.status === "failed";
  const { data: why } = useQuery({ ...missionWhy(mission.id), enabled: waits });
  if (!waits || !why) return null;
  const id = `why.${why.code}`;
  return (
    <Alert color={mission.status === "failed" ? "red" : "blue"} title={t(mission.status === "queued" ? "mission.whyWaits" : "mission.whyNow")}>
      {knownId(id) ? t(id) : why.summary} <span className="quiet">({why.code})</span>
    </Alert>
  );
}

function Facts({ mission }: { mission: Mission }) {
  const t = useT();
  const format = useFormat();
  const time = (iso: string | null) => iso && format.time(iso);
  const media = mission.media_type;
  const facts = [
    [t("mission.status"), <Status key="status" of={mission.status} />],
    [t("mission.checkpoint"), mission.checkpoint && t(`checkpoint.${mission.checkpoint}`)],
    [t("mission.days"), format.days(mission.date_start, mission.date_end)],
    [t("mission.media"), media === "all" || media === "video" || media === "image" ? t(`media.${media}`) : media],
    [t("mission.language"), mission.languages.join(", ")],
    [t("mission.worker"), mission.worker_name],
    [t("mission.proxy"), mission.proxy_used],
    [t("mission.attempt"), mission.attempt || null],
    [t("mission.retries"), mission.retry_count || null],
    [t("mission.ads"), mission.ads_count !== null && format.number(mission.ads_count)],
    [t("mission.stored"), mission.success_count !== null && format.number(mission.success_count)],
    [t("mission.notStored"), mission.failed_count !== null && format.number(mission.failed_count)],
    [t("mission.created"), time(mission.created_at)],
    [t("mission.queuedAt"), time(mission.queued_at)],
    [t("mission.started"), time(mission.started_at)],
    [t("mission.heartbeat"), time(mission.heartbeat_at)],
    [t("mission.finished"), time(mission.finished_at)],
    [t("mission.error"), mission.error_code && `${mission.error_code}: ${mission.error_message ?? ""}`],
  ] as const;
  return (
    <Paper withBorder p="md">
      <dl className="facts">
        {facts.map(([name, value]) => value && (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Paper>
  );
}

function History({ mission }: { mission: Mission }) {
  const t = useT();
  const format = useFormat();
  const timeline = useQuery(missionTimeline(mission.id));
  return (
    <Paper withBorder p="md">
      <Title order={2} size="h4" mb="sm">
        {t("mission.timeline")}
      </Title>
      <Loaded query={timeline}>
        {(events) =>
          events.length ? (
            <>
              <Lanes events={events} ended={mission.finished_at} />
              <Table.ScrollContainer minWidth={500} type="native" tabIndex={0}>
                <Table>
                  <Table.Tbody>
                    {events.map(({ timestamp, event, details }) => (
                      <Table.Tr key={`${timestamp}${event}${JSON.stringify(details)}`}>
                        <Table.Td className="nowrap">{format.time(timestamp)}</Table.Td>
                        <Table.Td className="code nowrap">{event}</Table.Td>
                        <Table.Td className="details">{details && JSON.stringify(details)}</Table.Td>
                      </Table.Tr>
                    ))}
                  </Table.Tbody>
                </Table>
              </Table.ScrollContainer>
            </>
          ) : (
            <Empty>{t("mission.noEvents")}</Empty>
          )
        }
      </Loaded>
    </Paper>
  );
}

function FailedItems({ id }: { id: number }) {
  const t = useT();
  const items = useQuery(failedItems(id));
  return (
    <Paper withBorder p="md">
      <Title order={2} size="h4" mb="sm">
        {t("mission.failedItems")}
      </Title>
      <Loaded query={items}>
        {(found) => (
          <Stack gap="xs">
            {found.map(({ index, error, data }) => (
              <Group key={index} gap="sm" wrap="nowrap" align="flex-start">
                <Text size="sm" className="code">
                  #{index}
                </Text>
                <div>
                  <Text size="sm">{error}</Text>
                  <Text size="xs" c="dimmed" className="details">
                    {JSON.stringify(data)}
                  </Text>
                </div>
              </Group>
            ))}
          </Stack>
        )}
      </Loaded>
    </Paper>
  );
}
