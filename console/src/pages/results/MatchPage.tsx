import { Alert, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { type MatchDetail, matchOne } from "../../api/results";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { External } from "../../parts/External";
import { type Columns, DataTable } from "../../parts/List";
import { FactList, Part } from "../../parts/Part";
import { Empty, Loaded, PageHead } from "../../parts/States";
import { Status } from "../../parts/Status";
import { FailedAttempts } from "../failures/Attempts";
import { type Compared, compared, scoreOf } from "./matches";
import { stateName } from "./states";

export function MatchPage({ id, match }: { id: number; match: string }) {
  const t = useT();
  const query = useQuery(matchOne(id, match));
  return (
    <Loaded query={query}>
      {(one) => (
        <>
          <PageHead
            title={
              one.home && one.away ? `${one.home} ${scoreOf(one) ?? "×"} ${one.away}` : one.match_id
            }
          >
            <Status of={stateName(one.status)} />
          </PageHead>
          <Stack>
            {one.error_code && one.status !== "FINISHED" && (
              <Alert color="red" title={t("match.failed")}>
                <span className="code">{one.error_code}</span> {one.error_message}
              </Alert>
            )}
            <What roundId={id} match={one} />
            <div className="two">
              <Events match={one} />
              <Figures match={one} />
            </div>
            {one.failures.length > 0 && <FailedAttempts id={one.task_id} />}
          </Stack>
        </>
      )}
    </Loaded>
  );
}

function What({ roundId, match }: { roundId: number; match: MatchDetail }) {
  const t = useT();
  const format = useFormat();
  return (
    <Part title={t("rounds.match")}>
      <FactList
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
          [t("rounds.attempts"), format.number(match.attempt_count)],
          [t("match.skipped"), match.reason],
          [t("match.stored"), match.stored_at && format.time(match.stored_at)],
          [
            t("match.page"),
            <External key="page" href={match.url}>
              {match.url}
            </External>,
          ],
        ]}
      />
    </Part>
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
    <Part title={t("match.events")}>
      {rows.length ? (
        <DataTable
          label={t("match.events")}
          columns={columns}
          rows={rows}
          keyOf={({ place }) => place}
          minWidth={320}
        />
      ) : (
        <Empty>{t("match.noEvents")}</Empty>
      )}
    </Part>
  );
}

function Figures({ match: { stat_list, home, away } }: { match: MatchDetail }) {
  const t = useT();
  const format = useFormat();
  const side = (name: "home" | "away") => (one: Compared) =>
    one[name] !== null && format.number(one[name]);
  const columns: Columns<Compared> = [
    [t("match.figure"), (one) => one.name],
    [home ?? t("rounds.home"), side("home"), "right"],
    [away ?? t("rounds.away"), side("away"), "right"],
  ];
  return (
    <Part title={t("match.figures")}>
      {stat_list.length ? (
        <DataTable
          label={t("match.figures")}
          columns={columns}
          rows={compared(stat_list)}
          keyOf={({ name }) => name}
          minWidth={280}
        />
      ) : (
        <Empty>{t("match.noFigures")}</Empty>
      )}
    </Part>
  );
}
