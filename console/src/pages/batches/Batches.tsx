import {
  Alert,
  Anchor,
  Button,
  Group,
  NativeSelect,
  Paper,
  Progress,
  Stack,
  Text,
  Title,
} from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link, useSearchParams } from "wouter";
import {
  type Batch,
  batchesKey,
  batchList,
  batchOne,
  cancelBatch,
  reprocessBatch,
  resumeBatch,
} from "../../api/engine";
import { statsKey } from "../../api/operations";
import { resultsOf } from "../../api/results";
import { useMay } from "../../app/access";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";
import { ActButton, Confirmed } from "../../parts/act";
import { Empty, Failed, Loading, PageHead } from "../../parts/States";
import { Status, useStatusName } from "../../parts/Status";

const STALE = [batchesKey, statsKey];
const STATES = [
  ["completed", "green"],
  ["skipped", "gray"],
  ["running", "blue"],
  ["failed", "red"],
  ["canceled", "gray"],
] as const;

const FILTERS = ["stalled", "running", "completed", "failed", "canceled"] as const;

export default function Batches() {
  const t = useT();
  const nameOf = useStatusName();
  const [search, setSearch] = useSearchParams();
  const chosen = FILTERS.find((one) => one === search.get("status"));
  const list = useInfiniteQuery(useMemo(() => batchList(chosen), [chosen]));
  const batches = list.data?.pages.flatMap((page) => page.items);
  return (
    <>
      <PageHead title={t("nav.batches")}>
        <NativeSelect
          size="xs"
          aria-label={t("batches.filter")}
          value={chosen ?? ""}
          data={[
            { value: "", label: t("batches.all") },
            ...FILTERS.map((one) => ({ value: one, label: nameOf(one) })),
          ]}
          onChange={({ currentTarget: { value } }) =>
            setSearch(value ? { status: value } : {}, { replace: true })
          }
        />
      </PageHead>
      {list.error && <Failed error={list.error} retry={() => void list.refetch()} />}
      {!batches && !list.error && <Loading />}
      {batches?.length === 0 && <Empty>{t("batches.none")}</Empty>}
      <Stack>
        {batches?.map((batch) => (
          <BatchCard key={batch.id} batch={batch} />
        ))}
        {list.hasNextPage && (
          <Button
            variant="default"
            loading={list.isFetchingNextPage}
            onClick={() => void list.fetchNextPage()}
          >
            {t("act.more")}
          </Button>
        )}
      </Stack>
    </>
  );
}

function BatchCard({ batch }: { batch: Batch }) {
  const t = useT();
  const format = useFormat();
  const nameOf = useStatusName();
  const results = resultsOf(batch);
  return (
    <Paper withBorder p="md" component="article" aria-label={batch.name}>
      <Group justify="space-between" mb="xs">
        <Group gap="sm">
          <Title order={2} size="h5">
            {batch.name} <span className="quiet">#{batch.id}</span>
          </Title>
          <Status of={batch.status} />
          {results && (
            <Anchor
              component={Link}
              href={results}
              size="sm"
              aria-label={t("results.seeOf", { name: batch.name })}
            >
              {t("results.see")}
            </Anchor>
          )}
        </Group>
        <BatchActions batch={batch} />
      </Group>
      {batch.status === "stalled" && <StalledBanner batch={batch} />}
      <Progress.Root size="lg" aria-hidden="true">
        {STATES.map(
          ([state, color]) =>
            batch[state] > 0 && (
              <Progress.Section
                key={state}
                value={(100 * batch[state]) / batch.total}
                color={color}
                aria-label={nameOf(state)}
              />
            ),
        )}
      </Progress.Root>
      <Text size="sm" c="dimmed" mt="xs">
        {t("batches.progress", {
          ended: format.number(batch.completed + batch.skipped),
          total: format.number(batch.total),
        })}
        {STATES.filter(([state]) => state !== "completed" && batch[state] > 0).map(
          ([state]) => ` · ${nameOf(state)}: ${format.number(batch[state])}`,
        )}
        {batch.eta_seconds !== null &&
          batch.status === "running" &&
          ` · ${t("batches.eta", { span: format.span(batch.eta_seconds) })}`}
        {` · ${t("batches.lastProgress", { ago: format.ago(batch.progress_at) })}`}
      </Text>
      <More batch={batch} />
    </Paper>
  );
}

// The error mix and what ended last, of a batch that has errors.
function More({ batch }: { batch: Batch }) {
  const t = useT();
  const format = useFormat();
  const { data } = useQuery({
    ...batchOne(batch.id),
    enabled: batch.failed > 0 && batch.status !== "stalled",
  });
  if (!data?.errors.length) return null;
  return (
    <Text size="sm" mt={4}>
      {t("batches.errorMix")}:{" "}
      {data.errors.map(({ code, tasks }) => `${code ?? "?"} (${format.number(tasks)})`).join(" · ")}
      {data.last_key && ` · ${t("batches.lastKeyShort", { key: data.last_key })}`}
    </Text>
  );
}

function StalledBanner({ batch }: { batch: Batch }) {
  const t = useT();
  const format = useFormat();
  const { data } = useQuery(batchOne(batch.id));
  const mayAct = useMay("operator");
  return (
    <Alert color="orange" role="alert" mb="sm" title={t("batches.stalledTitle")}>
      <Text size="sm">{t("batches.stalled", { ago: format.ago(batch.progress_at) })}</Text>
      {data?.route && (
        <Text size="sm">
          {t("batches.route")} <span className="code">{data.route}</span>
        </Text>
      )}
      {data?.last_key && <Text size="sm">{t("batches.lastKey", { key: data.last_key })}</Text>}
      {data && data.errors.length > 0 && (
        <Text size="sm">
          {data.errors
            .map(({ code, tasks }) => `${code ?? "?"}: ${format.number(tasks)}`)
            .join(" · ")}
        </Text>
      )}
      {mayAct && (
        <Group mt="xs">
          <ActButton
            size="xs"
            color="orange"
            variant="outline"
            act={() => resumeBatch(batch.id)}
            stale={STALE}
          >
            {t("batches.resume")}
          </ActButton>
          <ActButton
            size="xs"
            color="orange"
            variant="outline"
            disabled={batch.failed === 0}
            title={batch.failed === 0 ? t("batches.noErrors") : undefined}
            act={() => reprocessBatch(batch.id)}
            stale={STALE}
          >
            {t("batches.reprocess")}
          </ActButton>
        </Group>
      )}
    </Alert>
  );
}

function BatchActions({ batch }: { batch: Batch }) {
  const t = useT();
  const mayAct = useMay("operator");
  const ended =
    batch.status === "completed" || batch.status === "canceled" || batch.status === "failed";
  if (!mayAct) return null;
  return (
    <Group gap="xs">
      {batch.failed > 0 && batch.status !== "stalled" && (
        <ActButton size="xs" variant="default" act={() => reprocessBatch(batch.id)} stale={STALE}>
          {t("batches.reprocess")}
        </ActButton>
      )}
      {!ended && (
        <Confirmed
          size="xs"
          variant="outline"
          color="red"
          act={() => cancelBatch(batch.id)}
          stale={STALE}
          question={t("batches.cancelQuestion", { name: batch.name })}
        >
          {t("batches.cancel")}
        </Confirmed>
      )}
    </Group>
  );
}
