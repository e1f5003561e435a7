import { queryOptions } from "@tanstack/react-query";
import { api, keepCsrfToken, type Schemas } from "./client";
import { Problem, settled } from "./problem";

export type Session = Schemas["Session"];
export type Role = Session["role"];

const ORDER: Role[] = ["viewer", "operator", "admin"];

export const includes = (mine: Role, wanted: Role): boolean =>
  ORDER.indexOf(mine) >= ORDER.indexOf(wanted);

const kept = (session: Session): Session => {
  keepCsrfToken(session.csrf_token);
  return session;
};

// null: nobody has signed in.
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  queryFn: async (): Promise<Session | null> => {
    try {
      return kept(await settled(api.GET("/api/session")));
    } catch (error) {
      if (error instanceof Problem && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

export const signIn = async (credentials: Schemas["Credentials"]): Promise<Session> =>
  kept(await settled(api.POST("/api/session", { body: credentials })));

export const signOut = (): Promise<unknown> => settled(api.DELETE("/api/session"));
