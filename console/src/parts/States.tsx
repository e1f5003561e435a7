// What a page shows when there is nothing to show yet, nothing at all, or nothing that one may see.
import { Alert, Button, Group, Loader, Stack, Text, Title } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { asProblem } from "../api/problem";
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

export function Empty({ children, action }: { children: ReactNode; action?: ReactNode }) {
  return (
    <Stack align="center" p="xl" gap="sm">
      <Text c="dimmed" ta="center">
        {children}
      </Text>
      {action}
    </Stack>
  );
}

export function Failed({ error, retry }: { error: unknown; retry?: () => void }) {
  const t = useT();
  const problem = asProblem(error);
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
      {t("state.forbiddenHow")}
    </Alert>
  );
}

export function NotFound() {
  const t = useT();
  return <Empty>{t("state.notFound")}</Empty>;
}

// The data of a query, or the state in its place. Data that could not be renewed stays, under the error.
export function Loaded<T>({
  query,
  children,
}: {
  query: UseQueryResult<T>;
  children: (data: T) => ReactNode;
}) {
  const failed = query.error ? (
    <Failed error={query.error} retry={() => void query.refetch()} />
  ) : null;
  if (query.data === undefined) return failed ?? <Loading />;
  return (
    <>
      {failed}
      {children(query.data)}
    </>
  );
}

export function PageHead({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <Group justify="space-between" mb="md" className="page-head">
      <Title order={1} size="h2">
        {title}
      </Title>
      <Group gap="xs">{children}</Group>
    </Group>
  );
}
