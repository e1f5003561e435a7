// Snapshots are untrusted HTML. They are shown as text or, on demand, in a sandboxed frame without
// scripts, forms or network access.
import { Button, Code, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { snapshotQuery } from "../../api/engine";
import { QueryView } from "../../components/States";
import { useT } from "../../i18n";

const POLICY = `<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">`;

export const sandboxedHtml = (html: string): string =>
  `<!doctype html>${POLICY}<meta charset="utf-8">${html}`;

interface SnapshotProps {
  failureId: number;
  name: string;
  size: string;
  contentType: string;
}

export function Snapshot({ failureId, name, size, contentType }: SnapshotProps) {
  const t = useT();
  const [shown, setShown] = useState<"text" | "page" | null>(null);
  const found = useQuery({ ...snapshotQuery(failureId, name), enabled: shown !== null });
  const choose = (kind: "text" | "page") => setShown(shown === kind ? null : kind);
  return (
    <div>
      <Group gap="xs" mt={4}>
        <Button
          size="compact-xs"
          variant="default"
          aria-expanded={shown === "text"}
          onClick={() => choose("text")}
        >
          {t("failures.snapshot", { name, size })}
        </Button>
        {contentType.startsWith("text/html") && (
          <Button
            size="compact-xs"
            variant="default"
            aria-expanded={shown === "page"}
            onClick={() => choose("page")}
          >
            {t("failures.snapshotPage", { name })}
          </Button>
        )}
      </Group>
      {shown && (
        <QueryView query={found}>
          {(text) =>
            shown === "text" ? (
              <Code block className="tall" tabIndex={0} role="region" aria-label={name}>
                {text}
              </Code>
            ) : (
              <iframe
                className="snapshot"
                title={name}
                sandbox=""
                referrerPolicy="no-referrer"
                srcDoc={sandboxedHtml(text)}
              />
            )
          }
        </QueryView>
      )}
    </div>
  );
}
