import { shapes } from "./tables.js";
import type { TypesByName } from "./tables.js";

export type Shape =
  | { is: "any" | "null" | "boolean" }
  | { is: "string"; min_length?: number; max_length?: number; pattern?: string }
  | { is: "number" | "integer"; minimum?: number; maximum?: number }
  | { is: "ref"; name: string }
  | { is: "values"; values: unknown[] }
  | { is: "array"; items: Shape; min_items?: number; max_items?: number }
  | { is: "map"; items: Shape }
  | { is: "union"; arms: Shape[] }
  | { is: "object"; fields: Record<string, Shape>; required: string[]; closed: boolean };

const table = new Map<string, Shape>(Object.entries(shapes));

/** Returns a value of a type; throws a TypeError that names the first place where it is none. */
export function parse<Name extends keyof TypesByName>(name: Name, value: unknown): TypesByName[Name] {
  const wrong = errorOf(name, value);
  if (wrong !== undefined) throw new TypeError(wrong);
  return value as TypesByName[Name];
}

/** Returns the first place where a value is not of a type, strictly as the schema has it; undefined if it is. */
export function errorOf(name: string, value: unknown): string | undefined {
  const shape = table.get(name);
  return shape === undefined ? `the schema has no type ${name}` : check(shape, value, name);
}

function check(shape: Shape, value: unknown, at: string): string | undefined {
  switch (shape.is) {
    case "any":
      return undefined;
    case "ref":
      return check(table.get(shape.name)!, value, at);
    case "values":
      return shape.values.includes(value) ? undefined : `${at} is not one of ${shape.values.join(", ")}`;
    case "union":
      return shape.arms.some((arm) => check(arm, value, at) === undefined) ? undefined : `${at} matches no arm of a union`;
    case "null":
      return value === null ? undefined : `${at} is not null`;
    case "boolean":
      return typeof value === "boolean" ? undefined : `${at} is not a boolean`;
    case "string":
      if (typeof value !== "string") return `${at} is not a string`;
      if (shape.pattern !== undefined && !new RegExp(shape.pattern, "u").test(value)) return `${at} has another form`;
      return between([...value].length, shape.min_length, shape.max_length, at);
    case "number":
    case "integer":
      if (typeof value !== "number" || (shape.is === "integer" && !Number.isInteger(value))) return `${at} is not of the type ${shape.is}`;
      return between(value, shape.minimum, shape.maximum, at);
    case "array":
      if (!Array.isArray(value)) return `${at} is not an array`;
      return first(value.entries(), ([index, item]) => check(shape.items, item, `${at}[${index}]`))
        ?? between(value.length, shape.min_items, shape.max_items, at);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return `${at} is not an object`;
  if (shape.is === "map") return first(Object.entries(value), ([name, item]) => check(shape.items, item, `${at}.${name}`));
  const missing = shape.required.find((name) => !Object.hasOwn(value, name));
  if (missing !== undefined) return `${at}.${missing} is missing`;
  return first(Object.entries(value), ([name, item]) => {
    if (Object.hasOwn(shape.fields, name)) return check(shape.fields[name]!, item, `${at}.${name}`);
    return shape.closed ? `${at}.${name} is not in the schema` : undefined;
  });
}

function between(count: number, least: number | undefined, most: number | undefined, at: string): string | undefined {
  return (least !== undefined && count < least) || (most !== undefined && count > most) ? `${at} is outside its range` : undefined;
}

function first<Item>(items: Iterable<Item>, find: (item: Item) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}
