// One quote and its evidence: what it says, from which sources, and how it got there.
import { Alert, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { type QuoteDetail, type QuoteSource, quoteOne } from "../../api/results";
import { knownId, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { External } from "../../parts/External";
import { type Columns, DataTable } from "../../parts/List";
import { FactList, Part } from "../../parts/Part";
import { Empty, Loaded, PageHead } from "../../parts/States";
import { Status } from "../../parts/Status";
import { FailedAttempts } from "../failures/Attempts";
import { figure, type Passed, passed, timesMedian, verdictOf } from "./evidence";
import { stateName } from "./states";

export function QuotePage({ id }: { id: number }) {
  const t = useT();
  const quote = useQuery(quoteOne(id));
  return (
    <Loaded query={quote}>
      {(one) => (
        <>
          <PageHead title={t("quote.title", { id })}>
            <Status of={stateName(one.status)} />
          </PageHead>
          <Stack>
            {one.error_code && (
              <Alert color="red" title={t("quote.failed")}>
                <span className="code">{one.error_code}</span> {one.error_message}
              </Alert>
            )}
            <What quote={one} />
            <Statistics quote={one} />
            <Sources quote={one} />
            <Checkpoints quote={one} />
            {(one.error_code || one.attempt_number > 1) && <FailedAttempts id={id} />}
          </Stack>
        </>
      )}
    </Loaded>
  );
}

function What({ quote }: { quote: QuoteDetail }) {
  const t = useT();
  const format = useFormat();
  const kind = `quote.kind.${quote.kind}`;
  return (
    <Part title={t("quote.what")}>
      <Text mb="sm" className="breaks">
        {quote.description}
      </Text>
      <FactList
        facts={[
          [
            t("quotes.value"),
            <span key="value" className="value">
              {quote.value === null ? "–" : format.money(quote.value, quote.currency)}
            </span>,
          ],
          [t("quote.kind"), knownId(kind) ? t(kind) : quote.kind],
          [
            t("quotes.lot"),
            quote.batch_id && (
              <Link key="lot" href={`/results/lots/${quote.batch_id}`}>
                {quote.lot}
              </Link>
            ),
          ],
          [t("quote.reference"), quote.reference],
          [t("quote.searched"), quote.search_query],
          [
            t("mission.checkpoint"),
            quote.processing_checkpoint &&
              `${quote.processing_checkpoint} (${format.percent(quote.progress_percentage / 100)})`,
          ],
          [t("mission.attempt"), quote.attempt_number > 0 && format.number(quote.attempt_number)],
          [t("quote.worker"), quote.worker_id],
          [
            t("mission.heartbeat"),
            quote.status === "PROCESSING" &&
              quote.last_heartbeat &&
              format.time(quote.last_heartbeat),
          ],
          [t("results.created"), format.time(quote.created_at)],
          [t("mission.finished"), quote.completed_at && format.time(quote.completed_at)],
        ]}
      />
    </Part>
  );
}

function Statistics({ quote: { statistics, currency } }: { quote: QuoteDetail }) {
  const t = useT();
  const format = useFormat();
  if (!statistics) return null;
  const money = (name: string) => {
    const amount = figure(statistics, name);
    return amount !== null && format.money(amount, currency);
  };
  const count = (name: string) => format.number(figure(statistics, name) ?? 0);
  const variation = figure(statistics, "variation");
  return (
    <Part title={t("quote.statistics")}>
      <FactList
        facts={[
          [t("quote.median"), money("median")],
          [t("quote.mean"), money("mean")],
          [t("quote.minimum"), money("minimum")],
          [t("quote.maximum"), money("maximum")],
          [
            t("quote.deviation"),
            variation === null
              ? money("deviation")
              : `${money("deviation")} (${format.percent(variation)})`,
          ],
          [t("quote.kept"), t("results.share", { part: count("kept"), all: count("prices") })],
          [t("quote.outliers"), count("outliers")],
        ]}
      />
    </Part>
  );
}

function Sources({ quote }: { quote: QuoteDetail }) {
  const t = useT();
  const format = useFormat();
  const columns: Columns<QuoteSource> = [
    [t("quote.source"), (one) => one.source, "nowrap"],
    [
      t("quote.price"),
      (one) => (one.price === null ? "–" : format.money(one.price, one.currency)),
      "right nowrap",
    ],
    [t("quote.verdict"), (one) => <Judged source={one} statistics={quote.statistics} />],
    [t("quote.product"), (one) => <Seen source={one} />, "breaks"],
    [t("quote.method"), (one) => <Method of={one.method} />],
    [t("quote.fetched"), (one) => format.time(one.fetched_at), "nowrap"],
  ];
  return (
    <Part title={t("quote.sources")}>
      {quote.sources.length ? (
        <DataTable
          label={t("quote.sources")}
          columns={columns}
          rows={quote.sources}
          keyOf={({ position }) => position}
          minWidth={860}
        />
      ) : (
        <Empty>{t("quote.noSources")}</Empty>
      )}
    </Part>
  );
}

function Seen({ source: { title, url, excerpt } }: { source: QuoteSource }) {
  const t = useT();
  return (
    <>
      <External href={url}>{title}</External>
      {excerpt && (
        <details>
          <summary>{t("quote.excerpt")}</summary>
          <span className="details">{excerpt}</span>
        </details>
      )}
    </>
  );
}

function Method({ of }: { of: QuoteSource["method"] }) {
  const t = useT();
  const id = `quote.method.${of}`;
  return <>{of && (knownId(id) ? t(id) : of)}</>;
}

export function Judged({
  source,
  statistics,
}: {
  source: QuoteSource;
  statistics: QuoteDetail["statistics"];
}) {
  const t = useT();
  const format = useFormat();
  const verdict = verdictOf(source);
  const times = timesMedian(source.price, statistics);
  if (verdict === "kept") return <span className="good">✓ {t("quote.isKept")}</span>;
  if (verdict === "none") return <span className="bad">✗ {source.error ?? t("quote.isNone")}</span>;
  return (
    <span className="bad">
      ✗{" "}
      {times === null
        ? t("quote.isOutlier")
        : t("quote.isOutlierBy", { times: format.number(times) })}
    </span>
  );
}

function Checkpoints({ quote }: { quote: QuoteDetail }) {
  const t = useT();
  const format = useFormat();
  const columns: Columns<Passed> = [
    [
      t("mission.checkpoint"),
      (one) => (
        <span className="code">
          {one.times > 1 ? `${one.checkpoint} × ${one.times}` : one.checkpoint}
        </span>
      ),
    ],
    [t("mission.attempt"), (one) => format.number(one.attempt)],
    [t("mission.took"), (one) => one.duration_ms !== null && format.took(one.duration_ms)],
    [t("mission.when"), (one) => format.time(one.at), "nowrap"],
  ];
  return (
    <Part title={t("quote.checkpoints")}>
      {quote.checkpoints.length ? (
        <DataTable
          label={t("quote.checkpoints")}
          columns={columns}
          rows={passed(quote.checkpoints)}
          keyOf={({ checkpoint }) => checkpoint}
          minWidth={520}
        />
      ) : (
        <Empty>{t("quote.noCheckpoints")}</Empty>
      )}
    </Part>
  );
}
