import type { DetailProps } from "@console/app/builtinPages";
import { type Columns, DataTable } from "@console/components/DataTable";
import { ExternalLink } from "@console/components/ExternalLink";
import { DescriptionList, Section } from "@console/components/Section";
import { EmptyState, PageHeader, QueryView } from "@console/components/States";
import { StatusBadge } from "@console/components/StatusBadge";
import { toTaskStatus } from "@console/components/statuses";
import { useFormat } from "@console/i18n/format";
import { FailedAttempts } from "@console/pages/failures/Attempts";
import { Alert, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { pairBySide, type StatisticPair, scoreOf } from "./matches";
import { useT } from "./messages";
import { type MatchDetail, matchQuery } from "./queries";

export function MatchPage({ id, part: match }: DetailProps) {
  const t = useT();
  const query = useQuery(matchQuery(id, match));
  return (
    <QueryView query={query}>
      {(one) => (
        <>
          <PageHeader
            title={
              one.home && one.away ? `${one.home} ${scoreOf(one) ?? "×"} ${one.away}` : one.match_id
            }
          >
            <StatusBadge status={toTaskStatus(one.status)} />
          </PageHeader>
          <Stack>
            {one.error_code && one.status !== "FINISHED" && (
              <Alert color="red" title={t("match.failed")}>
                <span className="code">{one.error_code}</span> {one.error_message}
              </Alert>
            )}
            <MatchSummary roundId={id} match={one} />
            <div className="two">
              <Events match={one} />
              <Statistics match={one} />
            </div>
            {one.failures.length > 0 && <FailedAttempts id={one.task_id} />}
          </Stack>
        </>
      )}
    </QueryView>
  );
}

function MatchSummary({ roundId, match }: { roundId: number; match: MatchDetail }) {
  const t = useT();
  const format = useFormat();
  return (
    <Section title={t("rounds.match")}>
      <DescriptionList
        facts={[
          [
            t("match.round"),
            <Link key="round" href={`/results/rounds/${roundId}`}>
              #{roundId}
            </Link>,
          ],
          [
            t("mission.id"),
            <span key="id" className="code">
              {match.match_id}
            </span>,
          ],
          [t("match.kickoff"), match.kickoff_at && format.time(match.kickoff_at)],
          [t("match.venue"), match.venue],
          [t("match.attendance"), match.attendance !== null && format.number(match.attendance)],
          [t("results.attempts"), format.number(match.attempt_count)],
          [t("match.skipped"), match.reason],
          [t("match.stored"), match.stored_at && format.time(match.stored_at)],
          [
            t("match.page"),
            <ExternalLink key="page" href={match.url}>
              {match.url}
            </ExternalLink>,
          ],
        ]}
      />
    </Section>
  );
}

function Events({ match: { event_list, home, away } }: { match: MatchDetail }) {
  const t = useT();
  const columns: Columns<MatchDetail["event_list"][number] & { place: number }> = [
    [t("match.minute"), (one) => `${one.minute}'`, "right"],
    [t("match.event"), (one) => one.kind],
    [t("match.team"), (one) => (one.side === "home" ? home : away) ?? one.side],
    [t("match.player"), (one) => one.player],
  ];
  const rows = event_list.map((one, place) => ({ ...one, place }));
  return (
    <Section title={t("match.events")}>
      {rows.length ? (
        <DataTable
          label={t("match.events")}
          columns={columns}
          rows={rows}
          keyOf={({ place }) => place}
          minWidth={320}
        />
      ) : (
        <EmptyState>{t("match.noEvents")}</EmptyState>
      )}
    </Section>
  );
}

function Statistics({ match: { stat_list, home, away } }: { match: MatchDetail }) {
  const t = useT();
  const format = useFormat();
  const side = (name: "home" | "away") => (one: StatisticPair) =>
    one[name] !== null && format.number(one[name]);
  const columns: Columns<StatisticPair> = [
    [t("match.statistic"), (one) => one.name],
    [home ?? t("rounds.home"), side("home"), "right"],
    [away ?? t("rounds.away"), side("away"), "right"],
  ];
  return (
    <Section title={t("match.statistics")}>
      {stat_list.length ? (
        <DataTable
          label={t("match.statistics")}
          columns={columns}
          rows={pairBySide(stat_list)}
          keyOf={({ name }) => name}
          minWidth={280}
        />
      ) : (
        <EmptyState>{t("match.noStatistics")}</EmptyState>
      )}
    </Section>
  );
}
