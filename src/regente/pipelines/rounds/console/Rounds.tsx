import { batchesKey, failuresKey } from "@console/api/engine";
import { statsKey } from "@console/api/overview";
import { resultsKey } from "@console/api/pages";
import { useHasRole } from "@console/app/session";
import { useAction } from "@console/components/ActionButton";
import { type Columns, DataTable, PagedList } from "@console/components/DataTable";
import { EmptyWithCommand } from "@console/components/EmptyWithCommand";
import { DescriptionList, Section } from "@console/components/Section";
import { EmptyState, ErrorAlert, PageHeader, QueryView } from "@console/components/States";
import { StatusBadge } from "@console/components/StatusBadge";
import { parseId, toTaskStatus } from "@console/components/statuses";
import { useFormat } from "@console/i18n/format";
import { Alert, Button, Stack, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link, Redirect, useSearchParams } from "wouter";
import { notStored, scoreOf } from "./matches";
import { useT } from "./messages";
import {
  type Round,
  type RoundMatch,
  retryFailedMatches,
  roundListQuery,
  roundQuery,
} from "./queries";

const COMMAND = "regente rounds start brasileirao-2025 12";
const AFFECTED_QUERIES = [resultsKey("rounds"), batchesKey, failuresKey, statsKey];

export function Rounds() {
  const t = useT();
  const format = useFormat();
  const [search] = useSearchParams();
  const batch = parseId(search.get("batch") ?? "");
  const list = useInfiniteQuery(
    useMemo(() => roundListQuery(batch ? { batch_id: batch } : {}), [batch]),
  );
  const columns: Columns<Round> = [
    [
      t("rounds.league"),
      (one) => (
        <Link href={`/results/rounds/${one.id}`}>
          {t("rounds.name", { league: one.league, number: one.number })}
        </Link>
      ),
    ],
    [t("mission.status"), (one) => <StatusBadge status={toTaskStatus(one.status)} />],
    [
      t("rounds.stored"),
      (one) =>
        t("results.share", { part: format.number(one.finished), all: format.number(one.listed) }),
      "right",
    ],
    [t("rounds.open"), (one) => format.number(one.pending + one.running), "right"],
    [t("rounds.notStored"), (one) => format.number(notStored(one)), "right"],
    [
      t("mission.error"),
      (one) =>
        one.error_code && (
          <span className="code" title={one.error_message ?? ""}>
            {one.error_code}
          </span>
        ),
    ],
    [t("results.created"), (one) => format.time(one.created_at), "nowrap"],
  ];
  const [only] = list.data?.pages[0]?.items ?? [];
  if (batch && only) return <Redirect to={`/results/rounds/${only.id}`} replace />;
  return (
    <Section title={t("rounds.title")}>
      <PagedList
        list={list}
        empty={<EmptyWithCommand command={COMMAND}>{t("rounds.none")}</EmptyWithCommand>}
      >
        {(rounds) => (
          <DataTable
            label={t("rounds.title")}
            columns={columns}
            rows={rounds}
            keyOf={({ id }) => id}
            minWidth={720}
          />
        )}
      </PagedList>
    </Section>
  );
}

export function RoundPage({ id }: { id: number }) {
  const t = useT();
  const format = useFormat();
  const round = useQuery(roundQuery(id));
  return (
    <QueryView query={round}>
      {(one) => (
        <>
          <PageHeader title={t("rounds.name", { league: one.league, number: one.number })}>
            <StatusBadge status={toTaskStatus(one.status)} />
          </PageHeader>
          <Stack>
            {one.error_code && (
              <Alert color="red" title={t("rounds.failed")}>
                <span className="code">{one.error_code}</span> {one.error_message}
              </Alert>
            )}
            <RetryFailed round={one} />
            <Section title={t("rounds.counts")}>
              <DescriptionList
                facts={[
                  [t("rounds.listed"), format.number(one.listed)],
                  [t("rounds.stored"), format.number(one.finished)],
                  [t("status.pending"), format.number(one.pending)],
                  [t("status.running"), format.number(one.running)],
                  [t("status.failed"), format.number(one.failed)],
                  [t("status.skipped"), one.skipped > 0 && format.number(one.skipped)],
                  [t("status.canceled"), one.canceled > 0 && format.number(one.canceled)],
                  [t("status.missing"), one.missing > 0 && format.number(one.missing)],
                  [t("results.created"), format.time(one.created_at)],
                ]}
              />
            </Section>
            <Matches roundId={id} matches={one.matches} />
          </Stack>
        </>
      )}
    </QueryView>
  );
}

// Retries the matches that failed, were skipped or are missing; stored ones are not changed.
function RetryFailed({ round }: { round: Round }) {
  const t = useT();
  const mayAct = useHasRole("operator");
  const retry = useAction(() => retryFailedMatches(round.id), AFFECTED_QUERIES);
  const left = notStored(round) > 0 || round.status === "FAILED";
  if (!mayAct || (!left && !retry.data && !retry.error)) return null;
  return (
    <div>
      {left && (
        <Button variant="default" loading={retry.isPending} onClick={() => retry.mutate(undefined)}>
          {t("rounds.retry")}
        </Button>
      )}
      {retry.error && <ErrorAlert error={retry.error} />}
      <Text size="sm" role="status" mt={4}>
        {retry.data &&
          t("rounds.retried", { retried: retry.data.retried, selected: retry.data.selected })}
      </Text>
    </div>
  );
}

function Matches({ roundId, matches }: { roundId: number; matches: RoundMatch[] }) {
  const t = useT();
  const format = useFormat();
  const columns: Columns<RoundMatch> = [
    [
      t("rounds.match"),
      (one) => (
        <Link href={`/results/rounds/${roundId}/${encodeURIComponent(one.match_id)}`}>
          {one.match_id}
        </Link>
      ),
      "breaks",
    ],
    [t("rounds.home"), (one) => one.home, "right"],
    [t("rounds.score"), (one) => scoreOf(one), "nowrap center"],
    [t("rounds.away"), (one) => one.away],
    [t("mission.status"), (one) => <StatusBadge status={toTaskStatus(one.status)} />],
    [t("results.attempts"), (one) => format.number(one.attempt_count), "right"],
    [t("mission.error"), (one) => <MatchError match={one} />, "breaks"],
  ];
  return (
    <Section title={t("rounds.matches")}>
      {matches.length ? (
        <DataTable
          label={t("rounds.matches")}
          columns={columns}
          rows={matches}
          keyOf={({ match_id }) => match_id}
          minWidth={820}
        />
      ) : (
        <EmptyState>{t("rounds.noMatches")}</EmptyState>
      )}
    </Section>
  );
}

function MatchError({
  match: { status, error_code, error_message, reason },
}: {
  match: RoundMatch;
}) {
  if (reason) return <>{reason}</>;
  if (!error_code || status === "FINISHED") return null;
  return (
    <>
      <span className="code">{error_code}</span> <span className="quiet">{error_message}</span>
    </>
  );
}
