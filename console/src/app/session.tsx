import { createContext, useContext } from "react";
import { type Role, roleIncludes, type Session } from "../api/session";

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("useSession needs a signed-in user");
  return session;
}

export const useHasRole = (role: Role): boolean => roleIncludes(useSession().role, role);
