// The overview's first line: all is well, or the problems that need attention.
import { useLingui } from "@lingui/react";
import { Alert, Anchor } from "@mantine/core";
import { Link } from "wouter";
import type { Stats } from "../../api/overview";
import { attentionOf } from "../../app/builtinPages";
import { isMessageId, type Language, useT } from "../../i18n";
import { useFormat } from "../../i18n/format";

// Problems of the engine and of missions; those of other built-ins are in their pages.
const PATHS: Record<string, string> = {
  DEAD_LETTERS: "/failures",
  STALLED_BATCHES: "/batches",
  STUCK_TASKS: "/runners",
  PROXIES_FAIL: "/fleet",
  WORKERS_FAIL: "/fleet",
  PROXIES_OUT: "/fleet",
  NO_PROXY: "/fleet",
  NO_WORKER: "/fleet",
  NO_WRITER: "/fleet",
  WRITERS_FAIL: "/fleet",
  NO_RUNNER: "/runners",
  RUNNERS_LOST: "/runners",
};

type Problem = Stats["attention"][number];

export function Verdict({ attention }: { attention: Problem[] }) {
  const t = useT();
  if (!attention.length)
    return <Alert color="green" className="verdict" title={t("verdict.fine")} mb="md" />;
  return (
    <Alert
      color="orange"
      className="verdict"
      title={t("verdict.needs", { count: attention.length })}
      mb="md"
    >
      <ul className="needs">
        {attention.map((problem) => (
          <Item key={problem.code} problem={problem} />
        ))}
      </ul>
    </Alert>
  );
}

function Item({ problem: { code, count, message } }: { problem: Problem }) {
  const t = useT();
  const { i18n } = useLingui();
  const format = useFormat();
  const id = `attention.${code}`;
  const own = attentionOf(code);
  const path = own?.path ?? PATHS[code];
  const text = own
    ? i18n._(id, { count }, { message: own.text[i18n.locale as Language] })
    : isMessageId(id)
      ? t(id, { count })
      : `${format.number(count)} ${message}`;
  return (
    <li>
      {path ? (
        <Anchor component={Link} href={path}>
          {text}
        </Anchor>
      ) : (
        text
      )}
    </li>
  );
}
