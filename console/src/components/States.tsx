// What a page shows while it loads, when it is empty, and when a request fails.
import { Alert, Button, Group, Loader, Stack, Text, Title } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { toProblem } from "../api/problem";
import { useT } from "../i18n";

export function Loading() {
  const t = useT();
  return (
    <Group justify="center" p="xl" role="status">
      <Loader size="sm" aria-hidden="true" />
      <Text c="dimmed">{t("state.loading")}</Text>
    </Group>
  );
}

export function EmptyState({ children, action }: { children: ReactNode; action?: ReactNode }) {
  return (
    <Stack align="center" p="xl" gap="sm">
      <Text c="dimmed" ta="center">
        {children}
      </Text>
      {action}
    </Stack>
  );
}

export function ErrorAlert({ error, retry }: { error: unknown; retry?: () => void }) {
  const t = useT();
  const problem = toProblem(error);
  if (problem.status === 403) return <Forbidden />;
  return (
    <Alert color="red" role="alert" title={t(problem.isOffline ? "state.offline" : "state.failed")}>
      <Group justify="space-between">
        <Text size="sm">
          {problem.message} <span className="quiet">({problem.code})</span>
        </Text>
        {retry && (
          <Button size="xs" color="red" variant="outline" onClick={retry}>
            {t("state.retry")}
          </Button>
        )}
      </Group>
    </Alert>
  );
}

export function Forbidden() {
  const t = useT();
  return (
    <Alert color="yellow" title={t("state.forbidden")}>
      {t("state.forbiddenHelp")}
    </Alert>
  );
}

export function NotFound() {
  const t = useT();
  return <EmptyState>{t("state.notFound")}</EmptyState>;
}

// The data of a query, or its loading or error state. Data stays visible when a refetch fails.
export function QueryView<T>({
  query,
  children,
}: {
  query: UseQueryResult<T>;
  children: (data: T) => ReactNode;
}) {
  const failed = query.error ? (
    <ErrorAlert error={query.error} retry={() => void query.refetch()} />
  ) : null;
  if (query.data === undefined) return failed ?? <Loading />;
  return (
    <>
      {failed}
      {children(query.data)}
    </>
  );
}

export function PageHeader({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Group justify="space-between" mb="md" className="page-head">
      <Title order={1} size="h2">
        {title}
      </Title>
      <Group gap="xs">{children}</Group>
    </Group>
  );
}
