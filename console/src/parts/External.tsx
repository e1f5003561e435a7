import type { ReactNode } from "react";
import { useT } from "../i18n";
import { webAddress } from "./link";

// A link out of the console, or the bare text where the address is not one of a web page.
export function External({
  href,
  children,
}: {
  href: string | null | undefined;
  children: ReactNode;
}) {
  const t = useT();
  const address = webAddress(href);
  if (!address) return <>{children}</>;
  return (
    <a className="out" href={address} target="_blank" rel="noopener noreferrer">
      {children}
      <span aria-hidden="true"> ↗</span>
      <span className="hidden-text"> {t("act.newTab")}</span>
    </a>
  );
}
