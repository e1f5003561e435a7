import { Alert, Button, Stack, Text } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link, Redirect, useSearchParams } from "wouter";
import { batchesKey, failuresKey } from "../../api/engine";
import { statsKey } from "../../api/operations";
import {
  type Round,
  type RoundMatch,
  resultsKey,
  retryFailedOf,
  roundList,
  roundOne,
} from "../../api/results";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { useAct } from "../../parts/act";
import { type Columns, DataTable, Paged } from "../../parts/List";
import { FactList, Part } from "../../parts/Part";
import { Empty, Failed, Loaded, PageHead } from "../../parts/States";
import { Status } from "../../parts/Status";
import { Begin } from "./Begin";
import { scoreOf, wanting } from "./matches";
import { asId, stateName } from "./states";

const FIRST = "regente rounds start brasileirao-2025 12";
const STALE = [resultsKey("rounds"), batchesKey, failuresKey, statsKey];

export function Rounds() {
  const t = useT();
  const format = useFormat();
  const [search] = useSearchParams();
  const batch = asId(search.get("batch") ?? "");
  const list = useInfiniteQuery(
    useMemo(() => roundList(batch ? { batch_id: batch } : {}), [batch]),
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
    [t("mission.status"), (one) => <Status of={stateName(one.status)} />],
    [
      t("rounds.stored"),
      (one) =>
        t("results.share", { part: format.number(one.finished), all: format.number(one.listed) }),
      "right",
    ],
    [t("rounds.open"), (one) => format.number(one.pending + one.running), "right"],
    [t("rounds.wanting"), (one) => format.number(wanting(one)), "right"],
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
    <Part title={t("rounds.title")}>
      <Paged list={list} empty={<Begin command={FIRST}>{t("rounds.none")}</Begin>}>
        {(rounds) => (
          <DataTable
            label={t("rounds.title")}
            columns={columns}
            rows={rounds}
            keyOf={({ id }) => id}
            minWidth={720}
          />
        )}
      </Paged>
    </Part>
  );
}

export function RoundPage({ id }: { id: number }) {
  const t = useT();
  const format = useFormat();
  const round = useQuery(roundOne(id));
  return (
    <Loaded query={round}>
      {(one) => (
        <>
          <PageHead title={t("rounds.name", { league: one.league, number: one.number })}>
            <Status of={stateName(one.status)} />
          </PageHead>
          <Stack>
            {one.error_code && (
              <Alert color="red" title={t("rounds.failed")}>
                <span className="code">{one.error_code}</span> {one.error_message}
              </Alert>
            )}
            <RetryFailed round={one} />
            <Part title={t("rounds.counts")}>
              <FactList
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
            </Part>
            <Matches roundId={id} matches={one.matches} />
          </Stack>
        </>
      )}
    </Loaded>
  );
}

// Of what failed, was skipped or is missing: what is stored stays as it is.
function RetryFailed({ round }: { round: Round }) {
  const t = useT();
  const mayAct = useMay("operator");
  const retry = useAct(() => retryFailedOf(round.id), STALE);
  const left = wanting(round) > 0 || round.status === "FAILED";
  if (!mayAct || (!left && !retry.data && !retry.error)) return null;
  return (
    <div>
      {left && (
        <Button variant="default" loading={retry.isPending} onClick={() => retry.mutate(undefined)}>
          {t("rounds.retry")}
        </Button>
      )}
      {retry.error && <Failed error={retry.error} />}
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
    [t("mission.status"), (one) => <Status of={stateName(one.status)} />],
    [t("rounds.attempts"), (one) => format.number(one.attempt_count), "right"],
    [t("mission.error"), (one) => <WhyNot match={one} />, "breaks"],
  ];
  return (
    <Part title={t("rounds.matches")}>
      {matches.length ? (
        <DataTable
          label={t("rounds.matches")}
          columns={columns}
          rows={matches}
          keyOf={({ match_id }) => match_id}
          minWidth={820}
        />
      ) : (
        <Empty>{t("rounds.noMatches")}</Empty>
      )}
    </Part>
  );
}

function WhyNot({ match: { status, error_code, error_message, reason } }: { match: RoundMatch }) {
  if (reason) return <>{reason}</>;
  if (!error_code || status === "FINISHED") return null;
  return (
    <>
      <span className="code">{error_code}</span> <span className="quiet">{error_message}</span>
    </>
  );
}
