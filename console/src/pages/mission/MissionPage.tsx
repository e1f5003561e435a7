import { Alert, Anchor, Button, Paper, Stack, Table, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import {
  actOnMission,
  type Deed,
  type Mission,
  missionKeys,
  missionOne,
  missionTimeline,
  missionWhy,
} from "../../api/missions";
import { statsKey } from "../../api/operations";
import { useMay } from "../../app/access";
import { knownId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { ActButton, Confirmed } from "../../parts/act";
import { FactList } from "../../parts/Part";
import { Empty, Loaded, NotFound, PageHead } from "../../parts/States";
import { Status } from "../../parts/Status";
import { FailedAttempts } from "../failures/Attempts";
import { CreateDialog } from "../missions/CreateDialog";
import { draftOf } from "../missions/range";
import { FailedItems, Payload } from "./Inside";
import { Lanes } from "./Lanes";

const MAY: Record<Deed, Mission["status"][]> = {
  queue: ["draft"],
  cancel: ["draft", "queued", "running"],
  retry: ["failed", "canceled"],
};

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
              {mission.attempt > 0 && <FailedAttempts id={id} />}
              {(mission.failed_count ?? 0) > 0 && <FailedItems id={id} />}
              <Payload id={id} />
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
  const [cloning, setCloning] = useState(false);
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
        <Confirmed
          color="red"
          variant="outline"
          act={() => actOnMission("cancel", mission.id)}
          stale={stale}
          question={t("mission.cancelQuestion", { id: mission.id })}
        >
          {t("deed.cancel")}
        </Confirmed>
      )}
      <Button variant="default" onClick={() => setCloning(true)}>
        {t("mission.clone")}
      </Button>
      <CreateDialog
        opened={cloning}
        close={() => setCloning(false)}
        title={t("create.cloneTitle", { id: mission.id })}
        start={draftOf(mission)}
      />
    </>
  );
}

function WhyNot({ mission }: { mission: Mission }) {
  const t = useT();
  const waits =
    mission.status === "queued" || mission.status === "running" || mission.status === "failed";
  const { data: why } = useQuery({ ...missionWhy(mission.id), enabled: waits });
  if (!waits || !why) return null;
  const id = `why.${why.code}`;
  return (
    <Alert
      color={mission.status === "failed" ? "red" : "blue"}
      title={t(mission.status === "queued" ? "mission.whyWaits" : "mission.whyNow")}
    >
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
    [
      t("mission.media"),
      media === "all" || media === "video" || media === "image" ? t(`media.${media}`) : media,
    ],
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
    [t("mission.waitsUntil"), time(mission.waits_until)],
    [t("mission.jobs"), [mission.worker_job_id, mission.writer_job_id].filter(Boolean).join(", ")],
    [
      t("mission.error"),
      mission.error_code && `${mission.error_code}: ${mission.error_message ?? ""}`,
    ],
  ] as const;
  return (
    <Paper withBorder p="md">
      <FactList facts={facts} />
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
              <Table.ScrollContainer
                minWidth={500}
                type="native"
                tabIndex={0}
                className="tall-table"
                role="region"
                aria-label={t("mission.events")}
              >
                <Table>
                  <Table.Tbody>
                    {events.map(({ timestamp, event, details }) => (
                      <Table.Tr key={`${timestamp}${event}${JSON.stringify(details)}`}>
                        <Table.Td className="nowrap">{format.time(timestamp)}</Table.Td>
                        <Table.Td className="code nowrap">{event}</Table.Td>
                        <Table.Td className="details">
                          {details && JSON.stringify(details)}
                        </Table.Td>
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
