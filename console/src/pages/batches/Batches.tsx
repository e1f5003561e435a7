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
  batchListQuery,
  batchQuery,
  cancelBatch,
  reprocessBatch,
  resumeBatch,
} from "../../api/engine";
import { statsKey } from "../../api/overview";
import { resultsPath } from "../../app/builtinPages";
import { useHasRole } from "../../app/session";
import { ActionButton, ConfirmButton } from "../../components/ActionButton";
import { EmptyState, ErrorAlert, Loading, PageHeader } from "../../components/States";
import { StatusBadge, useStatusName } from "../../components/StatusBadge";
import { useT } from "../../i18n";
import { useFormat } from "../../i18n/format";

const AFFECTED_QUERIES = [batchesKey, statsKey];
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
  const list = useInfiniteQuery(useMemo(() => batchListQuery(chosen), [chosen]));
  const batches = list.data?.pages.flatMap((page) => page.items);
  return (
    <>
      <PageHeader title={t("nav.batches")}>
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
      </PageHeader>
      {list.error && <ErrorAlert error={list.error} retry={() => void list.refetch()} />}
      {!batches && !list.error && <Loading />}
      {batches?.length === 0 && <EmptyState>{t("batches.none")}</EmptyState>}
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
            {t("common.more")}
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
  const results = resultsPath(batch);
  return (
    <Paper withBorder p="md" component="article" aria-label={batch.name}>
      <Group justify="space-between" mb="xs">
        <Group gap="sm">
          <Title order={2} size="h5">
            {batch.name} <span className="quiet">#{batch.id}</span>
          </Title>
          <StatusBadge status={batch.status} />
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
          ` · ${t("batches.eta", { span: format.duration(batch.eta_seconds) })}`}
        {` · ${t("batches.lastProgress", { ago: format.ago(batch.progress_at) })}`}
      </Text>
      <ErrorSummary batch={batch} />
    </Paper>
  );
}

// Errors by code and the last key of a batch with errors.
function ErrorSummary({ batch }: { batch: Batch }) {
  const t = useT();
  const format = useFormat();
  const { data } = useQuery({
    ...batchQuery(batch.id),
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
  const { data } = useQuery(batchQuery(batch.id));
  const mayAct = useHasRole("operator");
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
          <ActionButton
            size="xs"
            color="orange"
            variant="outline"
            action={() => resumeBatch(batch.id)}
            invalidates={AFFECTED_QUERIES}
          >
            {t("batches.resume")}
          </ActionButton>
          <ActionButton
            size="xs"
            color="orange"
            variant="outline"
            disabled={batch.failed === 0}
            title={batch.failed === 0 ? t("batches.noErrors") : undefined}
            action={() => reprocessBatch(batch.id)}
            invalidates={AFFECTED_QUERIES}
          >
            {t("batches.reprocess")}
          </ActionButton>
        </Group>
      )}
    </Alert>
  );
}

function BatchActions({ batch }: { batch: Batch }) {
  const t = useT();
  const mayAct = useHasRole("operator");
  const ended =
    batch.status === "completed" || batch.status === "canceled" || batch.status === "failed";
  if (!mayAct) return null;
  return (
    <Group gap="xs">
      {batch.failed > 0 && batch.status !== "stalled" && (
        <ActionButton
          size="xs"
          variant="default"
          action={() => reprocessBatch(batch.id)}
          invalidates={AFFECTED_QUERIES}
        >
          {t("batches.reprocess")}
        </ActionButton>
      )}
      {!ended && (
        <ConfirmButton
          size="xs"
          variant="outline"
          color="red"
          action={() => cancelBatch(batch.id)}
          invalidates={AFFECTED_QUERIES}
          question={t("batches.cancelQuestion", { name: batch.name })}
        >
          {t("batches.cancel")}
        </ConfirmButton>
      )}
    </Group>
  );
}
