//! Types of all operations and of all their outcomes, without an allocation for either.

/// Makes [`super::Op`] and [`super::Outcome`] of a list of operations.
macro_rules! operations {
    ($($file:ident :: $name:ident),* $(,)?) => {
        $(pub(crate) use self::$file::$name;)*

        /// Operation in flight, of any kind.
        pub(crate) enum Op {
            $($name($name),)*
        }

        /// Outcome of an operation of any kind.
        pub(crate) enum Outcome {
            $($name(<$name as Operation>::Output),)*
        }

        impl Op {
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => <$name as Operation>::NAME,)*
                }
            }

            pub(crate) fn descriptor(&self) -> Fd {
                match self {
                    $(Self::$name(op) => Operation::descriptor(op),)*
                }
            }

            pub(crate) fn second(&self) -> Option<Fd> {
                match self {
                    $(Self::$name(op) => Operation::second(op),)*
                }
            }

            pub(crate) fn is_looked_up_late(&self) -> bool {
                match self {
                    $(Self::$name(_) => <$name as Operation>::LOOKED_UP_LATE,)*
                }
            }

            pub(crate) fn prepare(&mut self, ring: &Uring) -> Start {
                match self {
                    $(Self::$name(op) => Operation::prepare(op, ring),)*
                }
            }

            pub(crate) fn progress(&mut self, completion: Completion, ring: &Uring) -> Option<Waker> {
                match self {
                    $(Self::$name(op) => Operation::progress(op, completion, ring),)*
                }
            }

            pub(crate) fn complete(self, completion: Completion, ring: &Uring) -> Outcome {
                match self {
                    $(Self::$name(mut op) => {
                        let result = Operation::complete(&mut op, completion, ring);
                        Outcome::$name(Operation::finish(op, result))
                    })*
                }
            }

            /// Ends the operation with an error, before it was begun.
            pub(crate) fn refuse(self, error: io::Error) -> Outcome {
                match self {
                    $(Self::$name(op) => Outcome::$name(Operation::finish(op, Err(error))),)*
                }
            }

            pub(crate) fn can_be_cancelled(&self) -> bool {
                match self {
                    $(Self::$name(op) => Operation::can_be_cancelled(op),)*
                }
            }

            /// Runs one step in a simulated world; returns the outcome, or the operation itself when it has
            /// to wait.
            #[cfg(feature = "sim")]
            pub(crate) fn simulate(self, step: &mut Step<'_>) -> Result<Outcome, Self> {
                match self {
                    $(Self::$name(mut op) => match Operation::simulate(&mut op, step) {
                        Poll::Ready(result) => Ok(Outcome::$name(Operation::finish(op, result))),
                        Poll::Pending => Err(Self::$name(op)),
                    })*
                }
            }
        }

        impl Outcome {
            /// Disposes of an outcome that no task takes.
            pub(crate) fn abandon(self, keeper: &mut dyn Keeper) {
                match self {
                    $(Self::$name(output) => <$name as Operation>::abandon(output, keeper),)*
                }
            }
        }

        $(
            impl From<$name> for Op {
                fn from(op: $name) -> Self {
                    Self::$name(op)
                }
            }

            impl Registered for $name {
                fn of(op: Op) -> Self {
                    let Op::$name(op) = op else { unreachable!("an operation stays what it is") };
                    op
                }

                fn outcome(output: <Self as Operation>::Output) -> Outcome {
                    Outcome::$name(output)
                }

                fn output(outcome: Outcome) -> <Self as Operation>::Output {
                    let Outcome::$name(output) = outcome else {
                        unreachable!("an operation ends as what it is")
                    };
                    output
                }
            }
        )*
    };
}
