import type { Schemas } from "@console/api/client";
import { useHasRole } from "@console/app/session";
import { type Columns, DataTable } from "@console/components/DataTable";
import { EmptyWithCommand } from "@console/components/EmptyWithCommand";
import { DescriptionList, Section } from "@console/components/Section";
import { EmptyState, ErrorAlert, QueryView } from "@console/components/States";
import { useStatusName } from "@console/components/StatusBadge";
import { useFormat } from "@console/i18n/format";
import { Button, Group, NativeSelect, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import type { FormEvent } from "react";
import { useT } from "./messages";
import { embeddingStatsQuery, searchTexts } from "./queries";

type Stats = Schemas["EmbeddingStats"];

const COMMAND = "regente embeddings add textos.jsonl";

export function Embeddings() {
  const stats = useQuery(embeddingStatsQuery);
  return (
    <QueryView query={stats}>
      {(found) => (
        <Stack>
          <EmbeddingCounts stats={found} />
          {found.vectors > 0 && <Search models={found.models.map(({ model }) => model)} />}
        </Stack>
      )}
    </QueryView>
  );
}

function EmbeddingCounts({ stats }: { stats: Stats }) {
  const t = useT();
  const format = useFormat();
  const nameOf = useStatusName();
  const tasks = Object.entries(stats.tasks).filter(([, count]) => count > 0);
  const columns: Columns<Stats["models"][number]> = [
    [t("embeddings.model"), (one) => <span className="code">{one.model}</span>, "breaks"],
    [t("embeddings.dimensions"), (one) => format.number(one.dimensions), "right"],
    [t("embeddings.vectors"), (one) => format.number(one.vectors), "right"],
    [t("embeddings.newest"), (one) => one.newest_at && format.time(one.newest_at), "nowrap"],
  ];
  return (
    <Section title={t("embeddings.stored")}>
      {stats.vectors === 0 && (
        <EmptyWithCommand command={COMMAND}>{t("embeddings.none")}</EmptyWithCommand>
      )}
      <DescriptionList
        facts={[
          [t("embeddings.vectors"), format.number(stats.vectors)],
          [t("embeddings.storage"), stats.storage],
          [
            t("embeddings.size"),
            t("embeddings.kilobytes", { size: format.number(stats.bytes / 1024) }),
          ],
          ...tasks.map(
            ([status, count]) =>
              [t("embeddings.tasks", { status: nameOf(status) }), format.number(count)] as const,
          ),
        ]}
      />
      {stats.models.length > 0 && (
        <div className="below">
          <DataTable
            label={t("embeddings.models")}
            columns={columns}
            rows={stats.models}
            keyOf={({ model }) => model}
            minWidth={480}
          />
        </div>
      )}
    </Section>
  );
}

// A text without an embedding costs a call to the provider: the search runs on submit, and only for
// operators.
function Search({ models }: { models: string[] }) {
  const t = useT();
  const maySearch = useHasRole("operator");
  const search = useMutation({ mutationFn: searchTexts });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const text = String(given.get("text") ?? "").trim();
    if (text) search.mutate({ text, model: String(given.get("model") ?? "") || null });
  };
  if (!maySearch) return <Text c="dimmed">{t("embeddings.operators")}</Text>;
  return (
    <Section title={t("embeddings.search")}>
      <search aria-label={t("embeddings.search")}>
        <form onSubmit={submit}>
          <Group align="flex-end" gap="xs" mb="sm">
            <TextInput
              size="sm"
              name="text"
              required
              withAsterisk={false}
              maxLength={32_000}
              label={t("embeddings.text")}
              className="wide"
            />
            <NativeSelect size="sm" name="model" label={t("embeddings.model")} data={models} />
            <Button size="sm" type="submit" loading={search.isPending}>
              {t("embeddings.submit")}
            </Button>
          </Group>
        </form>
      </search>
      {search.error && <ErrorAlert error={search.error} />}
      {search.data && <SearchResults items={search.data.items} />}
    </Section>
  );
}

function SearchResults({ items }: { items: Schemas["FoundText"][] }) {
  const t = useT();
  const format = useFormat();
  const columns: Columns<Schemas["FoundText"]> = [
    [t("embeddings.similarity"), (one) => format.percent(one.similarity), "right nowrap"],
    [
      t("embeddings.text"),
      (one) => (one.text.length > 600 ? `${one.text.slice(0, 599)}…` : one.text),
      "breaks",
    ],
    [t("results.created"), (one) => format.time(one.created_at), "nowrap"],
  ];
  if (!items.length) return <EmptyState>{t("embeddings.nothing")}</EmptyState>;
  return (
    <DataTable
      label={t("embeddings.found")}
      columns={columns}
      rows={items}
      keyOf={({ id }) => id}
      minWidth={480}
    />
  );
}
