import type { ReactNode } from "react";
import { CopyableCommand } from "./CopyableCommand";
import { EmptyState } from "./States";

// An empty state with the shell command that creates the first item.
export function EmptyWithCommand({ children, command }: { children: ReactNode; command: string }) {
  return <EmptyState action={<CopyableCommand text={command} />}>{children}</EmptyState>;
}
