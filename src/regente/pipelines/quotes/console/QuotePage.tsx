// A quote: value, statistics, sources and checkpoints.

import { type Columns, DataTable } from "@console/components/DataTable";
import { ExternalLink } from "@console/components/ExternalLink";
import { DescriptionList, Section } from "@console/components/Section";
import { EmptyState, PageHeader, QueryView } from "@console/components/States";
import { StatusBadge } from "@console/components/StatusBadge";
import { toTaskStatus } from "@console/components/statuses";
import { useFormat } from "@console/i18n/format";
import { FailedAttempts } from "@console/pages/failures/Attempts";
import { Alert, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import {
  type CheckpointSummary,
  statistic,
  summarizeCheckpoints,
  timesMedian,
  verdictOf,
} from "./evidence";
import { isMessageId, useT } from "./messages";
import { type QuoteDetail, type QuoteSource, quoteQuery } from "./queries";

export function QuotePage({ id }: { id: number }) {
  const t = useT();
  const quote = useQuery(quoteQuery(id));
  return (
    <QueryView query={quote}>
      {(one) => (
        <>
          <PageHeader title={t("quote.title", { id })}>
            <StatusBadge status={toTaskStatus(one.status)} />
          </PageHeader>
          <Stack>
            {one.error_code && (
              <Alert color="red" title={t("quote.failed")}>
                <span className="code">{one.error_code}</span> {one.error_message}
              </Alert>
            )}
            <QuoteSummary quote={one} />
            <Statistics quote={one} />
            <Sources quote={one} />
            <Checkpoints quote={one} />
            {(one.error_code || one.attempt_number > 1) && <FailedAttempts id={id} />}
          </Stack>
        </>
      )}
    </QueryView>
  );
}

function QuoteSummary({ quote }: { quote: QuoteDetail }) {
  const t = useT();
  const format = useFormat();
  const kind = `quote.kind.${quote.kind}`;
  return (
    <Section title={t("quote.what")}>
      <Text mb="sm" className="breaks">
        {quote.description}
      </Text>
      <DescriptionList
        facts={[
          [
            t("quotes.value"),
            <span key="value" className="value">
              {quote.value === null ? "–" : format.money(quote.value, quote.currency)}
            </span>,
          ],
          [t("quote.kind"), isMessageId(kind) ? t(kind) : quote.kind],
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
    </Section>
  );
}

function Statistics({ quote: { statistics, currency } }: { quote: QuoteDetail }) {
  const t = useT();
  const format = useFormat();
  if (!statistics) return null;
  const money = (name: string) => {
    const amount = statistic(statistics, name);
    return amount !== null && format.money(amount, currency);
  };
  const count = (name: string) => format.number(statistic(statistics, name) ?? 0);
  const variation = statistic(statistics, "variation");
  return (
    <Section title={t("quote.statistics")}>
      <DescriptionList
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
    </Section>
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
    [t("quote.verdict"), (one) => <SourceVerdict source={one} statistics={quote.statistics} />],
    [t("quote.product"), (one) => <SourceProduct quoteId={quote.id} source={one} />, "breaks"],
    [t("quote.method"), (one) => <Method of={one.method} />],
    [t("quote.fetched"), (one) => format.time(one.fetched_at), "nowrap"],
  ];
  return (
    <Section title={t("quote.sources")}>
      {quote.sources.length ? (
        <DataTable
          label={t("quote.sources")}
          columns={columns}
          rows={quote.sources}
          keyOf={({ position }) => position}
          minWidth={860}
        />
      ) : (
        <EmptyState>{t("quote.noSources")}</EmptyState>
      )}
    </Section>
  );
}

function SourceProduct({ quoteId, source }: { quoteId: number; source: QuoteSource }) {
  const t = useT();
  const { title, url, excerpt, screenshot, position } = source;
  const image = new URL(`/api/quotes/${quoteId}/sources/${position}/image`, location.href).href;
  return (
    <>
      <ExternalLink href={url}>{title}</ExternalLink>
      {excerpt && (
        <details>
          <summary>{t("quote.excerpt")}</summary>
          <span className="details">{excerpt}</span>
        </details>
      )}
      {screenshot && (
        <div>
          <ExternalLink href={image}>{t("quote.screenshot")}</ExternalLink>
        </div>
      )}
    </>
  );
}

function Method({ of }: { of: QuoteSource["method"] }) {
  const t = useT();
  const id = `quote.method.${of}`;
  return <>{of && (isMessageId(id) ? t(id) : of)}</>;
}

export function SourceVerdict({
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
  if (verdict === "none")
    return <span className="bad">✗ {source.error ?? t("quote.noPrice")}</span>;
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
  const columns: Columns<CheckpointSummary> = [
    [
      t("mission.checkpoint"),
      (one) => (
        <span className="code">
          {one.times > 1 ? `${one.checkpoint} × ${one.times}` : one.checkpoint}
        </span>
      ),
    ],
    [t("mission.attempt"), (one) => format.number(one.attempt)],
    [t("mission.took"), (one) => one.duration_ms !== null && format.milliseconds(one.duration_ms)],
    [t("mission.when"), (one) => format.time(one.at), "nowrap"],
  ];
  return (
    <Section title={t("quote.checkpoints")}>
      {quote.checkpoints.length ? (
        <DataTable
          label={t("quote.checkpoints")}
          columns={columns}
          rows={summarizeCheckpoints(quote.checkpoints)}
          keyOf={({ checkpoint }) => checkpoint}
          minWidth={520}
        />
      ) : (
        <EmptyState>{t("quote.noCheckpoints")}</EmptyState>
      )}
    </Section>
  );
}
