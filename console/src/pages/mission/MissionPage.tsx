import { Alert, Anchor, Button, Paper, Stack, Table, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import {
  actOnMission,
  type Mission,
  type MissionAction,
  missionKeys,
  missionQuery,
  missionTimelineQuery,
  missionWhyQuery,
} from "../../api/missions";
import { statsKey } from "../../api/overview";
import { useHasRole } from "../../app/session";
import { ActionButton, ConfirmButton } from "../../components/ActionButton";
import { DescriptionList } from "../../components/Section";
import { EmptyState, NotFound, PageHeader, QueryView } from "../../components/States";
import { StatusBadge } from "../../components/StatusBadge";
import { isMessageId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { FailedAttempts } from "../failures/Attempts";
import { CreateDialog } from "../missions/CreateDialog";
import { formOf } from "../missions/range";
import { FailedItems, Payload } from "./Payload";
import { PhaseTimeline } from "./PhaseTimeline";

const ALLOWED_IN: Record<MissionAction, Mission["status"][]> = {
  queue: ["draft"],
  cancel: ["draft", "queued", "running"],
  retry: ["failed", "canceled"],
};

export default function MissionPage({ id }: { id: number }) {
  const t = useT();
  const one = useQuery({ ...missionQuery(id), enabled: Number.isSafeInteger(id) && id > 0 });
  if (!(Number.isSafeInteger(id) && id > 0)) return <NotFound />;
  return (
    <>
      <Anchor component={Link} href="/missions" size="sm">
        ← {t("nav.missions")}
      </Anchor>
      <QueryView query={one}>
        {(mission) => (
          <>
            <PageHeader title={t("mission.title", { id })}>
              <MissionActions mission={mission} />
            </PageHeader>
            <Stack>
              <StatusReason mission={mission} />
              <MissionSummary mission={mission} />
              <MissionTimeline mission={mission} />
              {mission.attempt > 0 && <FailedAttempts id={id} />}
              {(mission.failed_count ?? 0) > 0 && <FailedItems id={id} />}
              <Payload id={id} />
            </Stack>
          </>
        )}
      </QueryView>
    </>
  );
}

function MissionActions({ mission }: { mission: Mission }) {
  const t = useT();
  const mayAct = useHasRole("operator");
  const [cloning, setCloning] = useState(false);
  if (!mayAct) return null;
  const affected = [missionKeys.all, statsKey];
  const can = (action: MissionAction) =>
    ALLOWED_IN[action].includes(mission.status) && !mission.canceling;
  return (
    <>
      {can("queue") && (
        <ActionButton action={() => actOnMission("queue", mission.id)} invalidates={affected}>
          {t("action.queue")}
        </ActionButton>
      )}
      {can("retry") && (
        <ActionButton action={() => actOnMission("retry", mission.id)} invalidates={affected}>
          {t("action.retry")}
        </ActionButton>
      )}
      {can("cancel") && (
        <ConfirmButton
          color="red"
          variant="outline"
          action={() => actOnMission("cancel", mission.id)}
          invalidates={affected}
          question={t("mission.cancelQuestion", { id: mission.id })}
        >
          {t("action.cancel")}
        </ConfirmButton>
      )}
      <Button variant="default" onClick={() => setCloning(true)}>
        {t("mission.clone")}
      </Button>
      <CreateDialog
        opened={cloning}
        close={() => setCloning(false)}
        title={t("create.cloneTitle", { id: mission.id })}
        start={formOf(mission)}
      />
    </>
  );
}

function StatusReason({ mission }: { mission: Mission }) {
  const t = useT();
  const waits =
    mission.status === "queued" || mission.status === "running" || mission.status === "failed";
  const { data: why } = useQuery({ ...missionWhyQuery(mission.id), enabled: waits });
  if (!waits || !why) return null;
  const id = `why.${why.code}`;
  return (
    <Alert
      color={mission.status === "failed" ? "red" : "blue"}
      title={t(mission.status === "queued" ? "mission.whyWaits" : "mission.currentState")}
    >
      {isMessageId(id) ? t(id) : why.summary} <span className="quiet">({why.code})</span>
    </Alert>
  );
}

function MissionSummary({ mission }: { mission: Mission }) {
  const t = useT();
  const format = useFormat();
  const time = (iso: string | null) => iso && format.time(iso);
  const media = mission.media_type;
  const facts = [
    [t("mission.status"), <StatusBadge key="status" status={mission.status} />],
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
      <DescriptionList facts={facts} />
    </Paper>
  );
}

function MissionTimeline({ mission }: { mission: Mission }) {
  const t = useT();
  const format = useFormat();
  const timeline = useQuery(missionTimelineQuery(mission.id));
  return (
    <Paper withBorder p="md">
      <Title order={2} size="h4" mb="sm">
        {t("mission.timeline")}
      </Title>
      <QueryView query={timeline}>
        {(events) =>
          events.length ? (
            <>
              <PhaseTimeline events={events} ended={mission.finished_at} />
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
            <EmptyState>{t("mission.noEvents")}</EmptyState>
          )
        }
      </QueryView>
    </Paper>
  );
}
